package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// A kind is an action that sprites may ask for. The JSON schemas of the parameters are manifests/schema/action-*.json.
type kind struct {
	permission string // that the call needs
	// check reads the parameters strictly. It returns the repository that they name, "" for the run's.
	check   func(parameters json.RawMessage) (repo string, err error)
	atForge bool // it is performed at a code host, by a person if lattice is not connected to it
}

var kinds = map[string]kind{
	protocol.ActionPushBranch: {permission: "git:read", check: strictly(checkPush)}, // request mode: git:push is for pushing from inside
	protocol.ActionOpenPR: {permission: "github:write", atForge: true, check: strictly(func(p protocol.OpenPR) (string, error) {
		return p.Repo, errors.Join(checkLine("title", p.Title, protocol.MaxTitle), checkText("body", p.Body, protocol.MaxBody), checkBranch("base", p.Base), checkFilled("head", p.Head), checkBranch("head", p.Head),
			checkCommit("base_sha", p.BaseSHA), checkCommit("head_sha", p.HeadSHA), checkDigest("sha256", p.SHA256), checkAlso(p.Also))
	})},
	protocol.ActionPostComment: {permission: "github:write", atForge: true, check: strictly(func(p protocol.PostComment) (string, error) {
		return p.Repo, errors.Join(checkPositive("number", p.Number), checkFilled("body", p.Body), checkText("body", p.Body, protocol.MaxBody))
	})},
	protocol.ActionLabelIssue: {permission: "github:write", atForge: true, check: strictly(checkLabels)},
	protocol.ActionOpenIssues: {permission: "github:write", atForge: true, check: strictly(checkIssues)},
	protocol.ActionUseTool:    {permission: "agent:run", check: strictly(checkTool)},
	protocol.ActionNotifyUser: {permission: "user:notify", check: strictly(checkNotice)},
	protocol.ActionFetchCredential: {permission: "credential:fetch", check: strictly(func(p protocol.FetchCredential) (string, error) {
		return "", errors.Join(checkLine("name", p.Name, 128), checkLine("purpose", p.Purpose, 1024))
	})},
}

// AtForge reports whether an action is performed at a code host.
func AtForge(name string) bool { return kinds[name].atForge }

// checkParameters refuses parameters that do not have the form of their action.
func checkParameters(name string, parameters json.RawMessage) error {
	repo, err := kinds[name].check(parameters)
	if err != nil {
		return badParameters(name, err)
	}
	if repo != "" && !shortTarget().MatchString(repo) {
		return checkTarget(repo)
	}
	return nil
}

func badParameters(name string, err error) error {
	return newRefusal("bad_parameters", "manifests/schema/action-"+strings.ReplaceAll(strings.ToLower(name), "_", "-")+".schema.json says what "+name+" takes",
		"%s", gitexec.Sanitize(strings.ReplaceAll(err.Error(), "\n", "; ")))
}

// optional are members that a request may leave out although the skills of lattice always write them.
var optional = map[string]bool{"level": true, "NotifyUser.body": true, "OpenPR.body": true, "OpenPR.base": true}

// strictly returns a function that reads one JSON object with the members of T and calls check. An unknown member could be
// meant to widen a request, and two members of one name, or of names that differ in case, to show the policy one value and
// perform another; they are refused.
func strictly[T any](check func(T) (string, error)) func(json.RawMessage) (string, error) {
	return func(raw json.RawMessage) (string, error) {
		p, err := decodeParameters[T](raw)
		if err != nil {
			return "", err
		}
		return check(p)
	}
}

func decodeParameters[T any](raw json.RawMessage) (p T, err error) {
	if err := checkMembers(reflect.TypeFor[T](), "", raw); err != nil {
		return p, err
	}
	err = json.Unmarshal(raw, &p)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("the parameter %s must be of the type %s, not %s", wrong.Field, typeName(wrong.Type), wrong.Value)
	}
	return p, err
}

// checkMembers returns an error unless the JSON object raw has the members of the struct t, each once. The objects in its lists
// are checked likewise; at is the path of raw, such as "also/0/".
func checkMembers(t reflect.Type, at string, raw json.RawMessage) error {
	given, err := memberNames(raw)
	if err != nil {
		return err
	}
	var known, missing []string
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		known = append(known, name)
		if options == "" && !optional[name] && !optional[t.Name()+"."+name] && !slices.Contains(given, name) {
			missing = append(missing, at+name)
		}
	}
	for i, name := range given {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no parameter %.64q, only %s", at+name, strings.Join(known, ", "))
		case slices.Contains(given[:i], name):
			return fmt.Errorf("the parameter %s is given twice", at+name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the parameter %s is missing", strings.Join(missing, ", "))
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type.Kind() != reflect.Slice || field.Type.Elem().Kind() != reflect.Struct || !slices.Contains(given, name) {
			continue
		}
		var members map[string]json.RawMessage
		var items []json.RawMessage
		if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members[name], &items) != nil {
			return fmt.Errorf("the parameter %s%s must be a list", at, name)
		}
		for i, item := range items {
			if err := checkMembers(field.Type.Elem(), fmt.Sprintf("%s%s/%d/", at, name, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// memberNames returns the names of the members of a JSON object, in order.
func memberNames(raw json.RawMessage) (names []string, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("the parameters are not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("the parameters cannot be read: %w", err)
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("the parameters cannot be read: %w", err)
		}
		if string(value) == "null" {
			return nil, fmt.Errorf("the parameter %.64q is null; leave it out", name)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("the parameters cannot be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the parameters are more than one value")
	}
	return names, nil
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return "integer"
	case reflect.Slice:
		return "array"
	case reflect.Float64:
		return "number"
	}
	return t.Kind().String()
}

func checkPush(p protocol.PushBranch) (string, error) {
	err := errors.Join(checkFilled("branch", p.Branch), checkFilled("base", p.Base), checkFilled("bundle", p.Bundle), checkFilled("sha256", p.SHA256))
	if err == nil {
		err = errors.Join(checkDigest("sha256", p.SHA256), checkText("title", p.Title, protocol.MaxTitle), checkAlso(p.Also))
	}
	return p.Repo, err
}

// checkAlso checks the pushes to further repositories, which are named in full.
func checkAlso(also []protocol.AlsoPush) error {
	if len(also) > protocol.MaxAlso {
		return fmt.Errorf("the parameter also has %d entries; at most %d are allowed", len(also), protocol.MaxAlso)
	}
	for i, p := range also {
		at := fmt.Sprintf("also/%d/", i)
		for _, m := range []struct{ name, value string }{{"repo", p.Repo}, {"branch", p.Branch}, {"base", p.Base}, {"head", p.Head}, {"bundle", p.Bundle}, {"sha256", p.SHA256}} {
			if err := checkFilled(at+m.name, m.value); err != nil {
				return err
			}
		}
		err := errors.Join(checkBranch(at+"branch", p.Branch), checkBranch(at+"into", p.Into), checkCommit(at+"base", p.Base), checkCommit(at+"head", p.Head), checkDigest(at+"sha256", p.SHA256))
		if err == nil {
			err = checkTarget(p.Repo)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkLabels(p protocol.LabelIssue) (string, error) {
	errs := []error{checkPositive("number", p.Number)}
	if n := len(p.Labels); n == 0 || n > protocol.MaxLabels {
		errs = append(errs, fmt.Errorf("the parameter labels has %d entries; 1 to %d are allowed", n, protocol.MaxLabels))
	}
	for i, label := range p.Labels {
		errs = append(errs, checkLine(fmt.Sprintf("labels[%d]", i), label, protocol.MaxLabel))
	}
	return p.Repo, errors.Join(errs...)
}

// issueKey matches the keys of tasks and the names of epics.
var issueKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) })

// checkIssues refuses invisible characters as well: an approval is about many texts at once.
func checkIssues(p protocol.OpenIssues) (string, error) {
	errs := []error{checkLine("document", p.Document, protocol.MaxTitle)}
	if p.Number < 0 {
		errs = append(errs, checkPositive("number", p.Number))
	}
	if n := len(p.Issues); n == 0 || n > protocol.MaxIssues {
		errs = append(errs, fmt.Errorf("the parameter issues has %d entries; 1 to %d are allowed", n, protocol.MaxIssues))
	}
	known := map[string]bool{}
	for i, issue := range p.Issues {
		at := fmt.Sprintf("issues/%d/", i)
		switch {
		case !issueKey().MatchString(issue.Key) || len(issue.Key) > 60 || issue.Epic != "" && !issueKey().MatchString(issue.Epic) || len(issue.Epic) > 60:
			errs = append(errs, fmt.Errorf("the parameters %skey and epic are words in small letters joined by dashes", at))
		case known[issue.Key]:
			errs = append(errs, fmt.Errorf("the parameter %skey is %s, as that of another issue", at, issue.Key))
		case text.Invisible(issue.Title+issue.Body) != nil:
			errs = append(errs, fmt.Errorf("the parameters %stitle and body hold invisible characters", at))
		}
		known[issue.Key] = true
		errs = append(errs, checkLine(at+"title", issue.Title, protocol.MaxTitle), checkText(at+"body", issue.Body, maxIssueBody))
	}
	return p.Repo, errors.Join(errs...)
}

// maxIssueBody bounds the text of each issue, so that a person can read all of them.
const maxIssueBody = 8 << 10

func checkTool(p protocol.UseTool) (string, error) {
	return "", errors.Join(checkLine("agent", p.Agent, 128), checkLine("kind", p.Kind, 32), checkText("name", p.Name, 128), checkLine("title", p.Title, 1024),
		checkFilled("arguments", p.Arguments), checkText("arguments", p.Arguments, protocol.MaxArguments), checkFilled("sha256", p.SHA256), checkDigest("sha256", p.SHA256))
}

func checkNotice(p protocol.NotifyUser) (string, error) {
	errs := []error{checkLine("title", p.Title, protocol.MaxNotifyTitle), checkText("body", p.Body, protocol.MaxNotifyBody)}
	if !slices.Contains([]string{"", protocol.LevelInfo, protocol.LevelWarning, protocol.LevelError}, p.Level) {
		errs = append(errs, fmt.Errorf("the parameter level is %.64q, not info, warning or error", p.Level))
	}
	if p.Channel != "" && !channelName().MatchString(p.Channel) {
		errs = append(errs, fmt.Errorf("the parameter channel is %.64q, not the name of a channel; an address is never one", p.Channel))
	}
	if p.Link != "" {
		u, err := url.Parse(p.Link)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || len(p.Link) > 2048 {
			errs = append(errs, errors.New("the parameter link is not an http or https URL without a user"))
		}
	}
	return "", errors.Join(errs...)
}

// channelName matches names of channels as the settings have them.
var channelName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) })

func checkPositive(name string, n int64) error {
	if n < 1 {
		return fmt.Errorf("the parameter %s is %d, not a positive number", name, n)
	}
	return nil
}

func checkFilled(name, value string) error {
	if strings.TrimSpace(value) == "" {
		return fmt.Errorf("the parameter %s is missing", name)
	}
	return nil
}

// checkText refuses a value of more than limit bytes, and one that no terminal should be shown.
func checkText(name, value string, limit int) error {
	switch {
	case len(value) > limit:
		return fmt.Errorf("the parameter %s has %d bytes; at most %d are allowed", name, len(value), limit)
	case !utf8.ValidString(value), strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t\r", r) }):
		return fmt.Errorf("the parameter %s holds control characters", name)
	}
	return nil
}

// checkLine is checkText for a value that must have exactly one line.
func checkLine(name, value string, limit int) error {
	if strings.ContainsAny(value, "\r\n") {
		return fmt.Errorf("the parameter %s has more than one line", name)
	}
	if err := checkFilled(name, value); err != nil {
		return err
	}
	return checkText(name, value, limit)
}

func checkBranch(name, value string) error {
	if value == "" { // base: the default branch
		return nil
	}
	if strings.HasPrefix(value, "-") {
		return fmt.Errorf("the parameter %s is %.64q, not a branch", name, value)
	}
	if text.Invisible(value) != nil {
		return fmt.Errorf("the parameter %s is %.64q, which holds invisible characters", name, text.Visible(value))
	}
	return checkLine(name, value, 200)
}

func checkDigest(name, value string) error {
	if value != "" && !isDigest(value) {
		return fmt.Errorf("the parameter %s is not a lower-case hex digest", name)
	}
	return nil
}

func checkCommit(name, value string) error {
	if value != "" && (len(value) != 40 && len(value) != 64 || strings.Trim(value, "0123456789abcdef") != "") {
		return fmt.Errorf("the parameter %s is not a full commit id", name)
	}
	return nil
}

func isDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
