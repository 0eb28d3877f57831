package dialogue

import (
	"context"
	"slices"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// leftOut lists the parts of a thread that an agent does not get. The entry about the command names who wrote each, where, and why. A long
// thread has a part of its comments there, and their number.
type leftOut struct {
	Comments int           `json:"comments,omitempty"`
	First    []leftComment `json:"first,omitempty"`
	Hidden   []leftHidden  `json:"hidden_text,omitempty"`
}

type leftComment struct {
	Comment int64  `json:"comment_id"`
	Author  string `json:"author"`
	Why     string `json:"why"`
}

// leftHidden is a text with parts that the code host does not show.
type leftHidden struct {
	In     string `json:"in"`
	Author string `json:"author"`
}

// maxLeft bounds each list of an entry.
const maxLeft = 20

func (l *leftOut) add(c forge.Comment, host, why string) {
	if l.Comments++; len(l.First) < maxLeft {
		l.First = append(l.First, leftComment{c.ID, nameUser(host, c.Author), why})
	}
}

// addHidden notes that texts of a person have parts that are not shown, if they have.
func (l *leftOut) addHidden(in string, author forge.User, host string, texts ...string) {
	if len(l.Hidden) < maxLeft && slices.ContainsFunc(texts, func(t string) bool { t = unixLines(t); return shownText(t) != t }) {
		l.Hidden = append(l.Hidden, leftHidden{in, nameUser(host, author)})
	}
}

// orNil returns l, or nil if nothing was left out.
func (l *leftOut) orNil() *leftOut {
	if l == nil || l.Comments == 0 && len(l.Hidden) == 0 {
		return nil
	}
	return l
}

// judgeMarked judges a comment that ends with a marker of lattice and has no command: it is lattice's own, or a copy, which has no
// effect.
func (d *Dialogue) judgeMarked(ctx context.Context, host string, author forge.User) (string, error) {
	client, err := d.Hosts[host].Client()
	if err != nil {
		return "", err
	}
	self, err := client.Self(ctx)
	if err != nil {
		return settleError(err)
	}
	if self.ID == author.ID {
		return "no command", nil
	}
	return "refused: it copies the marker of a comment of lattice", nil
}
