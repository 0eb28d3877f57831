package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// An agent that speaks the Agent Client Protocol asks for permission before it uses a tool. The input decides: allow, deny, or
// ask. Ask makes a request of the action USE_TOOL, which the policy of the run judges, and by default a person:
//
//	request ─► the turn is cancelled, the agent ends ─► pending record ─► checkpoint, WAITING
//	answer  ─► the session is loaded again and told the answer ─► the agent repeats its request ─► the answer applies
//
// An answer applies to requests with the digest of the one that was asked about. An approval applies once. No answer, and no
// timeout, ever counts as an approval.

// permissionAnswer is the answer to a request for permission.
type permissionAnswer struct {
	SHA256  string `json:"sha256"`
	Allowed bool   `json:"allowed"`
	Used    bool   `json:"used"` // an approval that the session has used
}

// Judge implements [acp.Host].
func (t *talk) Judge(r acp.Request) acp.Verdict {
	p := t.l.in.Permissions
	verdict := judgeByInput(r, p.Mode, p.Allow, p.Deny)
	if verdict == acp.Ask {
		verdict = t.l.applyAnswers(r)
	}
	switch {
	case verdict == acp.Ask && r.Arguments == nil:
		t.l.call.Warn("permission_unclear", "the agent does not report the arguments of a tool, so that no person could be asked: "+t.l.title(r))
		verdict = acp.Deny
	case verdict == acp.Ask && len(r.Arguments) > protocol.MaxArguments:
		t.l.call.Warn("permission_unclear", fmt.Sprintf("the arguments of a tool have more than the %d bytes that a person is asked about: %s", protocol.MaxArguments, t.l.title(r)))
		verdict = acp.Deny
	case verdict == acp.Ask:
		t.asked = &r
		t.silence.EndAfter(politeStop, errWaiting)
	}
	if verdict == acp.Deny {
		t.out.tally.AddDenial(r.Kind, t.l.title(r))
	}
	return verdict
}

// judgeByInput decides about a request by the input: deny goes before allow, and both before the mode. A pattern matches the
// kind of the tool or its name, as the agent reports them.
func judgeByInput(r acp.Request, mode string, allow, deny []string) acp.Verdict {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			kind, _ := path.Match(pattern, r.Kind) // validate has refused bad patterns
			name, _ := path.Match(pattern, r.Name)
			return kind || r.Name != "" && name
		})
	}
	switch {
	case matches(deny):
		return acp.Deny
	case matches(allow) || mode == modeBypass:
		return acp.Allow
	case mode == modeAsk:
		return acp.Ask
	}
	return acp.Deny
}

// applyAnswers returns the decision of the person who was asked about the same request, or Ask.
func (l *launch) applyAnswers(r acp.Request) acp.Verdict {
	i := slices.IndexFunc(l.answers, func(a permissionAnswer) bool { return a.SHA256 == r.SHA256 && !(a.Allowed && a.Used) })
	switch {
	case i < 0 || r.SHA256 == "":
		return acp.Ask
	case !l.answers[i].Allowed:
		return acp.Deny
	}
	l.answers[i].Used = true
	return acp.Allow
}

// forgetUse makes all answers apply again: a new session repeats the requests of the old one.
func (l *launch) forgetUse() {
	for i := range l.answers {
		l.answers[i].Used = false
	}
}

// title returns the title of a request, safe to show.
func (l *launch) title(r acp.Request) string { return cleanLine(l.secrets.Text(r.Title)) }

// asked returns the request that waits for a person, nil if there is none.
func (o *output) asked() *acp.Request {
	if o.talk == nil {
		return nil
	}
	return o.talk.asked
}

// describePermission returns the parameters of USE_TOOL for a request.
func (l *launch) describePermission(r acp.Request) protocol.UseTool {
	return protocol.UseTool{
		Agent: l.adapter.Name, Kind: r.Kind, Name: l.secrets.Text(r.Name), Title: l.title(r), Arguments: l.secrets.Text(string(r.Arguments)), SHA256: r.SHA256,
	}
}

// takePermission notes the answer to a request with which this call was resumed. It returns the prompt that tells the agent.
func (l *launch) takePermission(r acp.Request) (prompt string, err error) {
	a, err := propose.Answered(l.call, protocol.ActionUseTool)
	var no *skill.Error
	if err != nil && (!errors.As(err, &no) || no.Code == "bad_input") {
		return "", err
	}
	var allowed protocol.ToolAllowed
	if no == nil && (json.Unmarshal(a.Result, &allowed) != nil || allowed.SHA256 != r.SHA256) { // after a loss of power it may be that of an earlier request
		return "Go on with your task.\n", nil
	}
	l.answers = append(l.answers, permissionAnswer{SHA256: r.SHA256, Allowed: no == nil})
	if no != nil {
		return fmt.Sprintf("Your request to use a tool (%s) was answered: %s. Go on with your task without it.\n", cleanLine(r.Title), no.Message), nil
	}
	return fmt.Sprintf("Your request to use a tool (%s) was answered: it is allowed. Use the tool again with the same arguments, then go on with your task.\n", cleanLine(r.Title)), nil
}
