package action

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Publisher performs actions at code hosts. All methods are safe to repeat. Its refusals are of type *forge.Problem.
type Publisher interface {
	// Find returns the place of a repository; ok is false if lattice is not connected to a code host with it.
	Find(ctx context.Context, repository string) (p forge.Place, ok bool, err error)
	OpenPull(ctx context.Context, p forge.Place, key string, n forge.NewPull) (forge.Published, error)
	PostComment(ctx context.Context, p forge.Place, attempt forge.Attempt, number int64, body string) (forge.Published, error)
	AddLabels(ctx context.Context, p forge.Place, number int64, labels []string) error
	// OpenIssues opens the issues that were not opened under their keys before, and returns all of them in their order. earlier is
	// when an earlier attempt began, as in forge.Attempt.
	OpenIssues(ctx context.Context, p forge.Place, earlier time.Time, keys []string, all []forge.NewIssue) ([]forge.Published, error)
}

// noPublisher is where there are no code hosts.
type noPublisher struct{ Publisher }

func (noPublisher) Find(context.Context, string) (p forge.Place, ok bool, err error) {
	return p, false, nil
}

// Placed is the part of a binding that names the repository of an action at its code host.
type Placed struct {
	Place *forge.Place `json:"place,omitempty"`
}

// ByHand reports whether a person has to perform an action, because lattice is not connected to its code host.
func ByHand(a lattice.Action) bool {
	var bound Placed
	return a.ByHand || AtForge(a.Name) && (json.Unmarshal(a.Binding, &bound) != nil || bound.Place == nil)
}

// bindPlace binds an action to the code host of its repository, with warnings about it. ok is false if lattice is not connected to it, so that a
// person has to perform the action.
func (f *Fulfiller) bindPlace(ctx context.Context, a lattice.Action, warnings []string) (_ lattice.Action, ok bool, err error) {
	own, _, has := f.repoOf(a.RunID)
	if !has {
		own = ""
	}
	spec, _ := Target(a.Parameters, own)
	place, ok, err := f.publisher.Find(ctx, spec)
	if problem, refused := errors.AsType[*forge.Problem](err); refused && problem.Final() {
		return a, false, newRefusal("forge_refused", "lattice forge check", "%v", err)
	}
	if err != nil || !ok {
		return a, false, err
	}
	a.Binding, err = json.Marshal(struct {
		Placed
		Warnings []string `json:"warnings,omitempty"`
	}{Placed{&place}, warnings})
	return a, true, err
}

// pushOf returns the push that comes before an action: the action itself, or the branch of a pull request.
func pushOf(a lattice.Action) (protocol.PushBranch, error) {
	if a.Name != protocol.ActionOpenPR {
		return decodePush(a.Parameters)
	}
	p, err := decodeParameters[protocol.OpenPR](a.Parameters)
	if err == nil && (p.Bundle == "" || p.BaseSHA == "") {
		return protocol.PushBranch{}, errors.New("the commits are missing: base_sha, head_sha, bundle and sha256")
	}
	push := protocol.PushBranch{Branch: p.Head, Base: p.BaseSHA, Head: p.HeadSHA, Bundle: p.Bundle, SHA256: p.SHA256, Title: p.Title, Repo: p.Repo}
	if err == nil {
		_, err = checkPush(push)
	}
	return push, err
}

// publishAction performs an action at the code host that it is bound to. head is the branch that was pushed for it.
func (f *Fulfiller) publishAction(ctx context.Context, a lattice.Action) ([]byte, error) {
	var bound Placed
	if json.Unmarshal(a.Binding, &bound) != nil || bound.Place == nil {
		return nil, newRefusal("unsupported", "a person does it at the code host", "%.64s is not bound to a code host", a.Name)
	}
	result, err := f.publishAt(ctx, a, *bound.Place)
	if problem, ok := errors.AsType[*forge.Problem](err); ok && problem.Final() {
		return nil, newRefusal("forge_refused", "lattice forge check "+bound.Place.Forge, "%v", problem)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// opened is the outcome of OPEN_PR. Branch and Head are those that were pushed.
type opened struct {
	forge.Published
	Branch string `json:"branch"`
	Head   string `json:"head"`
}

func (f *Fulfiller) publishAt(ctx context.Context, a lattice.Action, at forge.Place) (any, error) {
	switch a.Name {
	case protocol.ActionOpenPR:
		p, err := decodeParameters[protocol.OpenPR](a.Parameters)
		if err != nil {
			return nil, badParameters(a.Name, err)
		}
		pushed, err := f.pushBound(ctx, a)
		if err != nil {
			return nil, err
		}
		done, err := f.publisher.OpenPull(ctx, at, a.Key, forge.NewPull{Title: p.Title, Body: p.Body, Head: pushed.Branch, Base: cmp.Or(p.Base, at.DefaultBranch), Draft: true})
		return opened{done, pushed.Branch, pushed.Head}, err
	case protocol.ActionPostComment:
		p, err := decodeParameters[protocol.PostComment](a.Parameters)
		if err != nil {
			return nil, badParameters(a.Name, err)
		}
		return f.publisher.PostComment(ctx, at, forge.Attempt{Key: a.Key, Earlier: a.Begun}, p.Number, p.Body)
	case protocol.ActionLabelIssue:
		p, err := decodeParameters[protocol.LabelIssue](a.Parameters)
		if err != nil {
			return nil, badParameters(a.Name, err)
		}
		return map[string]any{"number": p.Number, "labels": p.Labels}, f.publisher.AddLabels(ctx, at, p.Number, p.Labels)
	}
	if a.Name == protocol.ActionOpenIssues {
		return f.openIssues(ctx, a, at)
	}
	return nil, newRefusal("unsupported", "", "the action %.64q is not supported", a.Name)
}
