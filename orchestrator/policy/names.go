package policy

import (
	"reflect"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// parametersOf are the types of the parameters of the actions that lattice knows. Rules may be about other actions.
var parametersOf = map[string]reflect.Type{
	protocol.ActionPushBranch: reflect.TypeFor[protocol.PushBranch](), protocol.ActionOpenPR: reflect.TypeFor[protocol.OpenPR](),
	protocol.ActionPostComment: reflect.TypeFor[protocol.PostComment](), protocol.ActionLabelIssue: reflect.TypeFor[protocol.LabelIssue](),
	protocol.ActionOpenIssues: reflect.TypeFor[protocol.OpenIssues](),
	protocol.ActionNotifyUser: reflect.TypeFor[protocol.NotifyUser](), protocol.ActionFetchCredential: reflect.TypeFor[protocol.FetchCredential](),
}

// listParameters returns the names of the parameters of an action, and of the values that rules may restrict besides; nil for
// an action that lattice does not know.
func listParameters(action string) []string {
	t, known := parametersOf[action]
	if !known {
		return nil
	}
	names := []string{repoValue}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "also" && !slices.Contains(names, name) { // the items of also are judged one by one
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// nearestName returns the name that is spelt almost like word, "" if there is none.
func nearestName(word string, names []string) (near string) {
	least := 1 + len(word)/4
	for _, name := range names {
		if d := manifests.Distance(strings.ToLower(word), strings.ToLower(name)); d <= least {
			near, least = name, d-1
		}
	}
	return near
}
