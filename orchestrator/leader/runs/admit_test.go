package runs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/spritekit/fault"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	const (
		pack  = `{"id":"a","op":"PACK","inputs":{"x":"$in.x"}}`
		push  = `{"id":"a","op":"TOOL_CALL","tool":"git.push","args":{"repo":".","branch":"b","mode":%q}}`
		repo  = `,"ctx_requires":["repo","run_id","agent_env","sprite"]`
		other = `,"ctx_requires":["oracle"]`
	)
	all := ir.DefaultGrants()
	for _, c := range []struct {
		name, node, more string
		in               map[string]any
		options          api.Options
		want             string
	}{
		{"ready", pack, repo, map[string]any{"x": nil}, api.Options{Grants: all, Repo: "/src"}, ""},
		{"input", pack, "", nil, api.Options{Grants: all}, "2 input_missing --input x=…"},
		{"repository first", pack, repo, nil, api.Options{Grants: all}, "2 repo_missing --repo PATH|URL"},
		{"context", pack, other, nil, api.Options{Grants: all, Repo: "/src"}, "2 ctx_missing make them inputs: $in.oracle"},
		{"permission", fmt.Sprintf(push, "direct"), "", nil, api.Options{Grants: all}, "4 permission_denied grant it: --allow git:push"},
		{"permission that may be needed", fmt.Sprintf(push, "$in.mode"), "", map[string]any{"mode": "direct"}, api.Options{Grants: all}, ""},
		{"agent variable", pack, "", map[string]any{"x": 1}, api.Options{Grants: all, AgentEnv: []string{"API_KEY"}}, ""},
		{"agent variable that is ours", pack, "", nil, api.Options{Grants: all, AgentEnv: []string{"LATTICE_CALL_ID"}},
			"2 agent_env_invalid names that begin with LATTICE_ configure the skill itself"},
		{"everything", fmt.Sprintf(push, "direct"), "", nil, api.Options{Grants: []string{"*"}}, ""},
		{"misspelt", pack, "", nil, api.Options{Grants: []string{"fs:raed", "*"}},
			"2 permission_unknown known: agent:run credential:fetch env:propose exec fs:read fs:write git:fetch git:push git:read git:write github:write net test:run user:notify web:read *"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, findings := check.Parse([]byte(`{"execir_version":"1.0","entry_node":"a","edges":[],"nodes":[`+c.node+`]`+c.more+`}`), manifests.Lookup)
			if p == nil {
				t.Fatal(findings)
			}
			got := ""
			var refused *fault.Error
			if err := checkAdmission(&compile.Flow{Program: p}, c.in, c.options); errors.As(err, &refused) {
				got = fmt.Sprint(refused.Exit, " ", refused.Fault.Code, " ", refused.Fault.Hint)
			} else if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("admit = %q, want %q", got, c.want)
			}
		})
	}
}

// Files of this machine are copied for people who have an account on it, not for callers with a token.
func TestCopiesForLocalCallers(t *testing.T) {
	t.Parallel()
	program := &ir.Program{Tools: map[string]manifests.Skill{"fs.read": {}}}
	o := api.Options{Copies: []string{t.TempDir()}}
	for _, c := range []struct {
		who  audit.Who
		want string
	}{{audit.Who{Name: "ada", UID: 1000}, ""}, {audit.Who{Name: "token:ci", UID: -1}, "copy_denied"}} {
		code := ""
		if refused, ok := errors.AsType[*fault.Error](checkCopies(caller.With(t.Context(), c.who), program, o)); ok {
			code = refused.Code
		}
		if code != c.want {
			t.Errorf("checkCopies for %s: %q, want %q", c.who.Name, code, c.want)
		}
	}
}
