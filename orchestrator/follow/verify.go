package follow

import (
	"context"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// VerifyProposals tries the changes that a failed run proposed and that no run tried yet, each in a run of its own, and prints
// the outcome. Problems are printed: its command ends with the failure of the run itself.
func VerifyProposals(ctx context.Context, console *cli.Console, c *connect.Conn, failed api.RunView, values api.Values) {
	if failed.Status != lattice.Failed || console.JSON || ctx.Err() != nil {
		return
	}
	all, err := c.Proposals(ctx, api.ProposalList{Run: failed.RunID, Open: true})
	if err != nil {
		fmt.Fprintf(console.Err, "lattice: the run's proposals were not read: %v\n", err)
		return
	}
	for _, s := range all {
		if s.Trial != nil || !slices.Contains(s.Needs, "verification") {
			PrintProposal(console, s)
			continue
		}
		fmt.Fprintf(console.Err, "lattice: the sprite proposes to %s; this is tried in a fresh sprite\n", cli.Clean(s.Adjustment.String()))
		if _, err := VerifyProposal(ctx, console, c, s.ID, values); err != nil {
			fmt.Fprintf(console.Err, "lattice: the proposal %s was not tried: %v\n", s.ID, err)
		}
	}
}

// VerifyProposal tries one proposal, shows the run that does, and prints the state of the proposal then.
func VerifyProposal(ctx context.Context, console *cli.Console, c *connect.Conn, id string, values api.Values) (proposal.State, error) {
	view, err := c.VerifyProposal(ctx, id, api.DriveRequest{Values: values})
	if err != nil {
		return proposal.State{}, err
	}
	if view.RunID == "" { // the CI of the repository has accepted it
		s, err := c.Proposal(ctx, id)
		if err == nil {
			PrintProposal(console, s)
		}
		return s, err
	}
	if view, err = Watch(ctx, console, c, view, 0); err != nil {
		return proposal.State{}, err
	}
	if view.Status != lattice.Succeeded && view.Status != lattice.Failed {
		return proposal.State{}, fmt.Errorf("the run %s that tries it is %s", view.RunID, view.Status)
	}
	all, err := c.Proposals(ctx, api.ProposalList{})
	if err != nil {
		return proposal.State{}, err
	}
	for _, s := range all {
		if s.Trial != nil && s.Trial.Run == view.RunID {
			PrintProposal(console, s)
			return s, nil
		}
	}
	return proposal.State{}, fmt.Errorf("the outcome of the run %s was not recorded", view.RunID)
}

// PrintProposal prints the state of a proposal and the commands with which a person decides.
func PrintProposal(console *cli.Console, s proposal.State) {
	text := cli.Clean(s.Adjustment.String())
	switch {
	case s.Status == proposal.Verified:
		fmt.Fprintf(console.Err, "lattice: accepted: later runs on %s %s\n", describeScope(s), text)
	case s.Status == proposal.Rejected:
		fmt.Fprintf(console.Err, "lattice: not accepted, since it did not help: %s\n", text)
	case slices.Contains(s.Needs, "approval"):
		fmt.Fprintf(console.Err, "lattice: the sprite proposes to %s, which needs approval\n  next: lattice proposal approve %s\n    or: lattice proposal reject %s\n", text, s.ID, s.ID)
	default:
		fmt.Fprintf(console.Err, "lattice: the sprite proposes to %s\n  next: lattice proposal verify %s\n", text, s.ID)
	}
}

// describeScope names the runs that a proposal is about.
func describeScope(s proposal.State) string {
	if s.Scope != protocol.ScopeRepoSpecific {
		return "every repository"
	}
	if s.Repo == "" {
		return "no repository"
	}
	return cli.Clean(s.Repo)
}
