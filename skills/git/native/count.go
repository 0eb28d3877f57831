package native

import (
	"bytes"
	"errors"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/objects"
)

// count sums up changes by lines, as git diff --numstat does.
func (r *repo) count(changes []change, attrs *attributes) (engine.Stats, error) {
	s := engine.Stats{Files: len(changes)}
	for _, c := range changes {
		added, deleted, err := r.countOne(c, attrs)
		if err != nil {
			return s, err
		}
		s.Additions += added
		s.Deletions += deleted
	}
	return s, nil
}

func (r *repo) countOne(c change, attrs *attributes) (added, deleted int, err error) {
	if c.from.id == c.to.id {
		return 0, 0, nil // the mode alone
	}
	diff, said := attrs.of(c.path)["diff"]
	if said && diff == "-" {
		return 0, 0, nil
	}
	a, binaryA, err := r.text(c.from)
	if err != nil {
		return 0, 0, err
	}
	b, binaryB, err := r.text(c.to)
	if err != nil || (binaryA || binaryB) && !said {
		return 0, 0, err
	}
	added, deleted = countLines(a, b)
	return added, deleted, nil
}

// text is a file's content, and whether git takes it for binary.
func (r *repo) text(s side) ([]byte, bool, error) {
	switch s.mode {
	case 0:
		return nil, false, nil
	case objects.ModeSubmodule:
		return []byte("Subproject commit " + s.id.String() + "\n"), false, nil
	}
	data, err := r.objects.Read(s.id, objects.Blob)
	if errors.Is(err, objects.ErrTooLarge) {
		return nil, true, nil
	}
	return data, bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0, err
}

// countLines counts the lines that b adds to a and takes from it.
func countLines(a, b []byte) (added, deleted int) {
	numbers := map[string]int{}
	x, y := lines(a, numbers), lines(b, numbers)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	common := commonLines(x, y)
	return len(y) - common, len(x) - common
}

// lines gives equal lines equal numbers.
func lines(data []byte, numbers map[string]int) []int {
	var list []int
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		n, ok := numbers[string(data[:end])]
		if !ok {
			n = len(numbers)
			numbers[string(data[:end])] = n
		}
		list = append(list, n)
		data = data[end:]
	}
	return list
}

// maxSteps bounds the search for a smallest difference; beyond it lines count as common where they come in the same order
// by chance, which overstates a change, as git's own heuristics do.
const maxSteps = 1 << 14

// commonLines is the length of a longest common subsequence, by Myers' greedy algorithm: the furthest point reached on
// each diagonal with d differences.
func commonLines(x, y []int) int {
	x, y = withoutStrangers(x, y)
	n, m := len(x), len(y)
	if n == 0 || m == 0 {
		return 0
	}
	most := min(n+m, maxSteps)
	furthest := make([]int, 2*most+3)
	origin := most + 1
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			if k > n || -k > m {
				continue
			}
			at := 0
			switch {
			case d == 0:
			case k == -d || k != d && furthest[origin+k-1] < furthest[origin+k+1]:
				at = furthest[origin+k+1]
			default:
				at = furthest[origin+k-1] + 1
			}
			for at < n && at-k < m && at-k >= 0 && x[at] == y[at-k] {
				at++
			}
			furthest[origin+k] = at
			if at >= n && at-k >= m {
				return (n + m - d) / 2
			}
		}
	}
	return greedy(x, y)
}

// withoutStrangers drops the lines that the other side does not have: they are common to nothing.
func withoutStrangers(x, y []int) ([]int, []int) {
	in := func(list []int) map[int]bool {
		set := make(map[int]bool, len(list))
		for _, n := range list {
			set[n] = true
		}
		return set
	}
	keep := func(list []int, set map[int]bool) []int {
		var kept []int
		for _, n := range list {
			if set[n] {
				kept = append(kept, n)
			}
		}
		return kept
	}
	inX, inY := in(x), in(y)
	return keep(x, inY), keep(y, inX)
}

// greedy is a common subsequence, if not a longest: each line of x takes the next such line of y.
func greedy(x, y []int) int {
	places := map[int][]int{}
	for i, n := range y {
		places[n] = append(places[n], i)
	}
	common, from := 0, 0
	for _, n := range x {
		at := places[n]
		for len(at) > 0 && at[0] < from {
			at = at[1:]
		}
		if places[n] = at; len(at) > 0 && at[0]-from < 1000 {
			from = at[0] + 1
			common++
		}
	}
	return common
}
