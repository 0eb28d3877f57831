package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// checkAdmission refuses a run that is known to fail, and names everything of one kind that is missing at once. Warnings of the
// preflight do not refuse a run: the call itself is checked when it is made.
func checkAdmission(flow *compile.Flow, input map[string]any, o api.Options) error {
	p := flow.Program
	if err := knownGrants(o.Grants); err != nil {
		return err
	}
	if err := checkVariables(o.AgentEnv); err != nil {
		return err
	}
	if findings := p.Preflight(o.Grants); finding.HasErrors(findings) {
		return compile.RefuseFlow("permission_denied", protocol.ExitDenied, flow.Told(findings))
	}
	for _, name := range o.ApproveWorld {
		if !slices.Contains(p.WorldCalls(nil), name) {
			return fault.BadInput("world_call_unknown", "the flow calls no skill %s that acts outside", name).WithHint("leave --approve-world %s out; lattice flow explain says what each step does", name)
		}
	}
	known := startContext("", o, time.Time{})
	known["sprite"] = true // prepared before the first node, like repo
	if o.Repo != "" {
		known["repo"] = true
	}
	if len(o.Siblings) > 0 {
		if !bytes.Contains(flow.ExecIR, []byte("$ctx.siblings")) {
			return fault.BadInput("repo_surplus", "the flow works on one repository, and %d were given", 1+len(o.Siblings)).WithHint("give --repo once; a flow that works on several uses $ctx.siblings")
		}
		known["siblings"] = true
	}
	switch missing := p.MissingCtx(known); {
	case slices.Contains(missing, "repo"):
		return fault.BadInput("repo_missing", "the flow works on a repository, and none was given").WithHint("--repo PATH|URL")
	case slices.Contains(missing, "siblings"):
		return fault.BadInput("repo_missing", "the flow works on several repositories, and one was given").WithHint("--repo PATH|URL for each, in the order that the flow expects")
	case len(missing) > 0:
		return fault.BadInput("ctx_missing", "the flow requires $ctx members that no run has: %s", strings.Join(missing, ", ")).WithHint("make them inputs: $in.%s", missing[0])
	}
	return CheckInput(p, input)
}

// CheckInput refuses an input that does not fit the schema of a program, or that lacks a member which the program reads.
func CheckInput(p *ir.Program, input map[string]any) error {
	flow := compile.Flow{Program: p}
	unfit, err := flow.CheckInput(input)
	if err != nil {
		return err
	}
	if len(unfit) > 0 {
		return refuseInput(unfit)
	}
	if missing := p.MissingInputs(input); len(missing) > 0 {
		noun := "input "
		if len(missing) > 1 {
			noun = "inputs "
		}
		return fault.BadInput("input_missing", "the flow needs %s%s", noun, strings.Join(missing, ", ")).WithHint("--input %s=…", strings.Join(missing, "=… --input "))
	}
	return nil
}

// refuseInput returns an error that names every violation of the flow's input_schema.
func refuseInput(findings []finding.Finding) error {
	var text []string
	hint := ""
	for _, f := range findings {
		text = append(text, fmt.Sprintf("%s: %s", cmp.Or(f.Pointer, "the input"), f.Message))
		hint = cmp.Or(hint, f.Hint)
	}
	p := fault.BadInput("input_invalid", "the input does not fit the flow's input_schema:\n  %s", strings.Join(text, "\n  ")).WithHint("%s", hint)
	if details, err := json.Marshal(map[string]any{"findings": findings}); err == nil {
		p.Fault.Details = details
	}
	return p
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// checkVariables refuses the names of variables that agents must not get.
func checkVariables(names []string) error {
	for _, name := range names {
		if !variable().MatchString(name) || strings.HasPrefix(name, "LATTICE_") {
			return fault.BadInput("agent_env_invalid", "%q cannot be passed to an agent", name).WithHint("names that begin with LATTICE_ configure the skill itself")
		}
	}
	return nil
}

// knownGrants refuses unknown permissions, which would show only when a call is denied.
func knownGrants(grants []string) error {
	known := append(manifests.Permissions(), "*")
	var unknown []string
	for _, g := range grants {
		if !slices.Contains(known, g) {
			unknown = append(unknown, fmt.Sprintf("%q", g))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fault.BadInput("permission_unknown", "there is no permission %s", strings.Join(unknown, ", ")).WithHint("known: %s", strings.Join(known, " "))
}

// startContext returns the members of $ctx that do not depend on the sprite.
func startContext(id string, o api.Options, now time.Time) map[string]any {
	return map[string]any{
		"run_id": id, "work_item_id": o.WorkItem, "started_at": protocol.FormatTime(now), "now": protocol.FormatTime(now),
		"timezone": zoneName(now, localtime), "trigger": "cli", "agent_env": append([]string{}, o.AgentEnv...),
	}
}
