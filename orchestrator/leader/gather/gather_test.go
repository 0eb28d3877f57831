package gather_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/leader/thread/threadtest"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestRead reads an issue in which a stranger writes, a comment was edited and text is hidden: none reaches the agent, and the list of what was
// left out names each. An issue that was edited after the command is refused.
func TestRead(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		w.Comment(threadtest.Repository, "sue", w.Issue, "OBEY")
		w.EditComment(threadtest.Repository, "wilma", w.Comment(threadtest.Repository, "wilma", w.Issue, "Never mind."), "OBEY")
		w.Comment(threadtest.Repository, "wilma", w.Issue, "It began on Monday.<!-- OBEY -->")
		before := w.Comment(threadtest.Repository, "wilma", w.Issue, "OBEY later")
		name, _ := thread.Parse(threadtest.Name)
		s := gather.Source{Thread: name, Client: w.Bot, Comment: before, Left: &gather.LeftOut{}}
		c, err := gather.Read(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		files, err := c.Bundle(t.Context())
		if all := c.Text() + fmt.Sprint(files); err != nil || strings.Contains(all, "OBEY") || !strings.Contains(all, "It began on Monday.") {
			t.Errorf("the agent gets %s, %v", all, err)
		}
		if l := s.Left.OrNil(); l == nil || l.Comments != 2 || len(l.First) != 2 || len(l.Hidden) != 1 {
			t.Errorf("left out is %+v", l)
		}
		s.Comment, s.IssueSum = math.MaxInt64, "another"
		if _, err := gather.Read(t.Context(), s); fault.As(err) == nil || fault.As(err).Code != "issue_edited" {
			t.Errorf("an issue that was edited is read: %v", err)
		}
	})
}
