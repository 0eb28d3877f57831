package lattice

import (
	"slices"
	"testing"
)

func TestTransitions(t *testing.T) {
	t.Parallel()
	all := []RunStatus{Pending, Running, Succeeded, Failed, Canceled, Blocked, BlockedWaitingForUser, Waiting}
	legal := map[RunStatus][]RunStatus{
		Pending:               {Running, Canceled},
		Running:               {Succeeded, Failed, Canceled, Blocked, BlockedWaitingForUser, Waiting},
		Waiting:               {Running, Failed, Canceled},
		Blocked:               {Running, Failed, Canceled},
		BlockedWaitingForUser: {Running, Failed, Canceled},
	}
	for _, from := range all {
		for _, to := range all {
			want := from == to || slices.Contains(legal[from], to)
			if err := from.To(to); (err == nil) != want {
				t.Errorf("%s.To(%s) = %v, want legal: %t", from, to, err, want)
			}
		}
	}
}
