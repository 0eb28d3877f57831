package fs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"sync/atomic"

	"github.com/spritekit/lattice/skills/fs/grep"
	"github.com/spritekit/lattice/skills/fs/walk"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultResults = 200
	maxResults     = 20000
	maxContext     = 20
	defaultLine    = 400
	maxLine        = 10000
	maxShown       = 16 << 20 // bytes of all lines together
)

// Values of the input output.
const (
	modeContent = "content"
	modeFiles   = "files"
	modeCount   = "count"
)

type searchInput struct {
	Pattern    string   `json:"pattern"`
	Regexp     bool     `json:"regexp"`
	IgnoreCase bool     `json:"ignore_case"`
	Word       bool     `json:"word"`
	Path       string   `json:"path"`
	Include    []string `json:"include"`
	Exclude    []string `json:"exclude"`
	Mode       string   `json:"mode"`
	Context    int      `json:"context"`
	MaxResults int      `json:"max_results"`
	MaxPerFile int      `json:"max_per_file"`
	MaxLine    int      `json:"max_line_bytes"`
	Binary     bool     `json:"binary"`
	Hidden     *bool    `json:"hidden"`
	Ignored    bool     `json:"ignored"`
}

type searchData struct {
	Path      string        `json:"path"`
	Mode      string        `json:"mode"`
	Matches   []searchMatch `json:"matches,omitzero"` // one of the three, also when it is empty
	Files     []string      `json:"files,omitzero"`
	Counts    []searchCount `json:"counts,omitzero"`
	Count     int           `json:"count"`    // lines that match, of those that are shown
	Searched  int64         `json:"searched"` // files
	Binary    int64         `json:"binary"`   // files left out because they are
	Truncated bool          `json:"truncated"`
}

type searchMatch struct {
	Path string `json:"path"`
	grep.Match
}

type searchCount struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

// searchFiles does the work of fs.search.
func searchFiles(ctx context.Context, c *skill.Call, in searchInput) (*searchData, error) {
	s, err := newSearch(&in)
	if err != nil {
		return nil, err
	}
	if s.base, err = c.Root.Rel(cmp.Or(in.Path, ".")); err != nil {
		return nil, err
	}
	info, err := c.Root.Stat(s.base)
	if err != nil {
		return nil, explainMissing(c, s.base, err)
	}
	if info.IsDir() {
		var skipped int
		skipped, err = walk.Tree(ctx, c.Root, s.base, walk.Options{
			Hidden: in.Hidden == nil || *in.Hidden, Ignored: in.Ignored,
			Enter: func(dir string) bool { return s.found.enter(dir) && !s.exclude.matchesBase(relativeTo(s.base, dir)) },
		}, func(worker int, e *walk.Entry) error { return s.visitEntry(ctx, worker, e) })
		warnSkipped(c, skipped)
	} else {
		err = s.searchFile(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	if n := s.unreadable.Load(); n > 0 {
		c.Warn("unreadable", formatCount(int(n), "file")+" could not be read")
	}
	return s.newData(), nil
}

// search is one search under way.
type search struct {
	in               *searchInput
	base             string
	include, exclude globs
	workers          [walk.MaxWorkers]grep.Scanner
	found            first[hit]

	searched, binary, unreadable atomic.Int64
	more                         atomic.Bool // max_per_file left some out
}

// hit is a file with matches.
type hit struct {
	path string
	grep.Result
}

func newSearch(in *searchInput) (*search, error) {
	in.Mode = cmp.Or(in.Mode, modeContent)
	in.MaxResults, in.MaxLine = cmp.Or(in.MaxResults, defaultResults), cmp.Or(in.MaxLine, defaultLine)
	switch {
	case in.Mode != modeContent && in.Mode != modeFiles && in.Mode != modeCount:
		return nil, skill.BadInput("/mode", "%q is none of content, files, count", in.Mode)
	case in.MaxResults < 0 || in.MaxResults > maxResults:
		return nil, skill.BadInput("/max_results", "is not between 1 and %d", maxResults)
	case in.MaxPerFile < 0 || in.MaxPerFile > maxResults:
		return nil, skill.BadInput("/max_per_file", "is not between 0 and %d", maxResults)
	case in.Context < 0 || in.Context > maxContext:
		return nil, skill.BadInput("/context", "is not between 0 and %d", maxContext)
	case in.MaxLine < 0 || in.MaxLine > maxLine:
		return nil, skill.BadInput("/max_line_bytes", "is not between 1 and %d", maxLine)
	case in.Mode == modeContent && in.MaxResults*in.MaxLine*(1+2*in.Context) > maxShown:
		return nil, skill.BadInput("/max_results", "asks for too much together with context and max_line_bytes").
			WithHint(`lower one of them, or count with "mode":"count" first`)
	}
	s := &search{in: in}
	var err error
	if s.include, err = newGlobs("/include", in.Include...); err != nil {
		return nil, err
	}
	if s.exclude, err = newGlobs("/exclude", in.Exclude...); err != nil {
		return nil, err
	}
	matcher, err := grep.Compile(grep.Query{Pattern: in.Pattern, Regexp: in.Regexp, IgnoreCase: in.IgnoreCase, Word: in.Word})
	if err != nil {
		return nil, skill.BadInput("/pattern", "%v", err).WithHint(`"regexp":true takes RE2 syntax, without lookaround and backreferences; otherwise the pattern is a literal text`)
	}
	o := grep.Options{Binary: in.Binary, Context: in.Context, MaxLine: in.MaxLine, Max: in.MaxPerFile}
	switch in.Mode {
	case modeContent:
		if o.Max == 0 || o.Max > in.MaxResults {
			o.Max = in.MaxResults
		}
	case modeFiles:
		o.Count, o.Max = true, 1
	case modeCount:
		o.Count = true
	}
	for i := range s.workers {
		s.workers[i] = grep.Scanner{Matcher: matcher, Options: o}
	}
	s.found = first[hit]{limit: in.MaxResults, path: func(h hit) string { return h.path }, size: func(h hit) int { return max(1, len(h.Matches)) }}
	return s, nil
}

func (s *search) visitEntry(ctx context.Context, worker int, e *walk.Entry) error {
	if !e.Type.IsRegular() || !s.found.wanted(e.Path) {
		return nil
	}
	if rel := relativeTo(s.base, e.Path); len(s.include) > 0 && !s.include.matchesBase(rel) || s.exclude.matchesBase(rel) {
		return nil
	}
	f, err := e.Open()
	if err == nil {
		defer f.Close()
		err = s.scanFile(ctx, worker, e.Path, f, f.Size())
	}
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, walk.ErrSpecial): // gone or swapped since it was listed
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	s.unreadable.Add(1)
	return nil
}

// searchFile searches the one file that the input names.
func (s *search) searchFile(ctx context.Context, c *skill.Call) error {
	f, err := openFile(c, s.base)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return s.scanFile(ctx, 0, s.base, f, info.Size())
}

func (s *search) scanFile(ctx context.Context, worker int, name string, r io.Reader, size int64) error {
	got, err := s.workers[worker].Scan(ctx, r, size)
	if err != nil {
		return err
	}
	s.searched.Add(1)
	switch {
	case got.Binary:
		s.binary.Add(1)
	case got.Count > 0:
		if got.More && s.in.Mode == modeContent {
			s.more.Store(true)
		}
		s.found.add(hit{name, got})
	}
	return nil
}

func (s *search) newData() *searchData {
	hits, more := s.found.sorted()
	data := &searchData{Path: s.base, Mode: s.in.Mode, Searched: s.searched.Load(), Binary: s.binary.Load(), Truncated: more || s.more.Load()}
	switch s.in.Mode { // nothing found is an empty list
	case modeFiles:
		data.Files = []string{}
	case modeCount:
		data.Counts = []searchCount{}
	case modeContent:
		data.Matches = []searchMatch{}
	}
	for _, h := range hits {
		switch s.in.Mode {
		case modeFiles:
			data.Files = append(data.Files, h.path)
		case modeCount:
			data.Counts = append(data.Counts, searchCount{h.path, h.Count})
			data.Count += h.Count
		case modeContent:
			for _, m := range h.Matches {
				if len(data.Matches) == s.in.MaxResults {
					data.Truncated = true
					break
				}
				data.Matches = append(data.Matches, searchMatch{h.path, m})
			}
		}
	}
	data.Count += len(data.Matches) + len(data.Files)
	return data
}

// formatCount is "1 file" or "2 files".
func formatCount(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
