package objects

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// CommitData is a commit taken apart.
type CommitData struct {
	Tree      ID
	Parents   []ID
	Author    Person
	Committer Person
	Encoding  string // of Message, "" for UTF-8
	Extra     string // further headers but signatures, each with its newline
	Message   string
}

// Person is who and when.
type Person struct {
	Name, Email string
	When        time.Time // in the zone that is written
}

// Commit reads a commit.
func (s *Store) Commit(id ID) (*CommitData, error) {
	data, err := s.Read(id, Commit)
	if err != nil {
		return nil, err
	}
	c, err := ParseCommit(data)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", id, err)
	}
	return c, nil
}

// ParseCommit takes a commit apart.
func ParseCommit(data []byte) (*CommitData, error) {
	c := &CommitData{}
	head, message, _ := bytes.Cut(data, []byte("\n\n"))
	c.Message = string(message)
	keep := false // whether lines that continue a header go to Extra
	for i, line := range strings.Split(string(head), "\n") {
		if strings.HasPrefix(line, " ") && i > 0 {
			if keep {
				c.Extra += line + "\n"
			}
			continue
		}
		keep = false
		key, value, _ := strings.Cut(line, " ")
		var ok bool
		switch {
		case i == 0:
			if c.Tree, ok = ParseID(value); !ok || key != "tree" {
				return nil, fmt.Errorf("%w: it names no tree", ErrCorrupt)
			}
		case key == "parent" && c.Author == Person{}:
			id, ok := ParseID(value)
			if !ok {
				return nil, fmt.Errorf("%w: a parent is no id", ErrCorrupt)
			}
			c.Parents = append(c.Parents, id)
		case key == "author":
			c.Author = parsePerson(value)
		case key == "committer":
			c.Committer = parsePerson(value)
		case key == "encoding":
			c.Encoding = value
		case key != "gpgsig" && key != "gpgsig-sha256" && key != "parent":
			c.Extra += line + "\n"
			keep = true
		}
	}
	return c, nil
}

// parsePerson reads "Name <email> seconds zone", as far as it is there.
func parsePerson(text string) Person {
	var p Person
	name, rest, _ := strings.Cut(text, "<")
	p.Name = strings.TrimSpace(name)
	i := strings.LastIndex(rest, ">")
	if i < 0 {
		return p
	}
	p.Email = rest[:i]
	seconds, zone, _ := strings.Cut(strings.TrimSpace(rest[i+1:]), " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return p
	}
	p.When = time.Unix(at, 0).In(parseZone(zone))
	return p
}

func parseZone(zone string) *time.Location {
	n, err := strconv.Atoi(zone)
	if err != nil || len(zone) < 5 {
		return time.UTC
	}
	return time.FixedZone("", (n/100*60+n%100)*60)
}

// String is the form that commits and reflogs hold.
func (p Person) String() string {
	_, offset := p.When.Zone()
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	return fmt.Sprintf("%s <%s> %d %c%02d%02d", p.Name, p.Email, p.When.Unix(), sign, offset/3600, offset/60%60)
}

// Encode is the commit as git writes it.
func (c *CommitData) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\ncommitter %s\n", c.Author, c.Committer)
	if c.Encoding != "" {
		fmt.Fprintf(&b, "encoding %s\n", c.Encoding)
	}
	b.WriteString(c.Extra)
	b.WriteByte('\n')
	b.WriteString(c.Message)
	return b.Bytes()
}

// The modes of tree and index entries.
const (
	ModeTree       uint32 = 0o040000
	ModeFile       uint32 = 0o100644
	ModeExecutable uint32 = 0o100755
	ModeSymlink    uint32 = 0o120000
	ModeSubmodule  uint32 = 0o160000
)

// Entry is one entry of a tree.
type Entry struct {
	Mode uint32
	Name string
	ID   ID
}

// Tree reads a tree.
func (s *Store) Tree(id ID) ([]Entry, error) {
	data, err := s.Read(id, Tree)
	if err != nil {
		return nil, err
	}
	entries, err := ParseTree(data)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", id, err)
	}
	return entries, nil
}

// ParseTree takes a tree apart. Names are non-empty and without slash; whether they are fit to be written to a disk is
// for others to judge. Modes come out as git reads them.
func ParseTree(data []byte) ([]Entry, error) {
	entries := make([]Entry, 0, len(data)/32)
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		m, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !spaced || err != nil || len(rest) < 20 || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%w: a broken entry", ErrCorrupt)
		}
		e := Entry{Mode: canonical(uint32(m)), Name: name, ID: ID(rest[:20])}
		entries = append(entries, e)
		data = rest[20:]
	}
	return entries, nil
}

// canonical is the mode that git takes an entry to have.
func canonical(mode uint32) uint32 {
	switch mode & 0o170000 {
	case 0o100000:
		if mode&0o100 != 0 {
			return ModeExecutable
		}
		return ModeFile
	case ModeSymlink, ModeTree:
		return mode & 0o170000
	}
	return ModeSubmodule
}

// EncodeTree is a tree as git writes it; entries are in git's order.
func EncodeTree(entries []Entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%o %s\x00", e.Mode, e.Name)
		b.Write(e.ID[:])
	}
	return b.Bytes()
}

// CompareNames orders entries as trees do: folders as if their names ended with a slash.
func CompareNames(a string, aTree bool, b string, bTree bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	end := func(s string, tree bool) int {
		switch {
		case n < len(s):
			return int(s[n])
		case tree:
			return '/'
		}
		return -1
	}
	return end(a, aTree) - end(b, bTree)
}
