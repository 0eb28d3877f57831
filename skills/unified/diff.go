package unified

import (
	"fmt"
	"strings"
)

// around is the number of lines of context in a diff.
const around = 3

// maxEdits bounds the work of Diff: a diff of texts that differ in more lines is one block that replaces another.
const maxEdits = 1000

// Diff is the unified diff between two texts, "" when they are equal. The names are those of the lines --- and +++.
func Diff(oldName, newName, old, new string) string {
	if old == new {
		return ""
	}
	a, b := splitLines(old), splitLines(new)
	ops := diffLines(a, b)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	for i := 0; i < len(ops); {
		// A hunk goes on while no more lines lie between two changes than are context to both.
		j := i + 1
		for j < len(ops) && ops[j].a-ops[j-1].aEnd <= 2*around {
			j++
		}
		writeHunk(&out, a, b, ops[i:j])
		i = j
	}
	return out.String()
}

// edit replaces a[a:aEnd] by b[b:bEnd].
type edit struct{ a, aEnd, b, bEnd int }

func writeHunk(out *strings.Builder, a, b []string, ops []edit) {
	first, last := ops[0], ops[len(ops)-1]
	before := min(around, first.a)
	after := min(around, len(a)-last.aEnd)
	aStart, aEnd, bStart, bEnd := first.a-before, last.aEnd+after, first.b-before, last.bEnd+after
	fmt.Fprintf(out, "@@ -%s +%s @@\n", showSpan(aStart, aEnd), showSpan(bStart, bEnd))
	at := aStart
	for _, op := range ops {
		writeLines(out, ' ', a[at:op.a])
		writeLines(out, '-', a[op.a:op.aEnd])
		writeLines(out, '+', b[op.b:op.bEnd])
		at = op.aEnd
	}
	writeLines(out, ' ', a[at:aEnd])
}

func showSpan(start, end int) string {
	switch end - start {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, end-start)
}

func writeLines(out *strings.Builder, op byte, lines []string) {
	for _, line := range lines {
		out.WriteByte(op)
		out.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// diffLines returns the fewest edits that turn a into b, in order (Myers, 1986).
func diffLines(a, b []string) []edit {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	aEnd, bEnd := len(a), len(b)
	for aEnd > start && bEnd > start && a[aEnd-1] == b[bEnd-1] {
		aEnd, bEnd = aEnd-1, bEnd-1
	}
	var ops []edit
	for _, op := range shortestEdits(a[start:aEnd], b[start:bEnd]) {
		ops = append(ops, edit{op.a + start, op.aEnd + start, op.b + start, op.bEnd + start})
	}
	return ops
}

func shortestEdits(a, b []string) []edit {
	n, m := len(a), len(b)
	if n == 0 && m == 0 {
		return nil
	}
	most := min(n+m, maxEdits)
	reach := make([]int, 2*most+3) // by diagonal k: the furthest x with d edits
	var trail [][]int
	for d := 0; d <= most; d++ {
		trail = append(trail, append([]int(nil), reach[most+1-d:most+2+d]...))
		for k := -d; k <= d; k += 2 {
			i := most + 1 + k
			x := reach[i-1] + 1
			if k == -d || k != d && reach[i-1] < reach[i+1] {
				x = reach[i+1]
			}
			y := x - k
			for x < n && y < m && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[i] = x
			if x >= n && y >= m {
				return walkBack(trail, n, m, d)
			}
		}
	}
	return []edit{{0, n, 0, m}}
}

// walkBack follows the trail from its end and joins adjacent edits.
func walkBack(trail [][]int, x, y, d int) []edit {
	var ops []edit // from the end
	add := func(op edit) {
		if last := len(ops) - 1; last >= 0 && ops[last].a == op.aEnd && ops[last].b == op.bEnd {
			ops[last].a, ops[last].b = op.a, op.b
			return
		}
		ops = append(ops, op)
	}
	for ; d > 0; d-- {
		before := trail[d] // of d-1 edits, from diagonal -d to d
		k := x - y
		at := func(k int) int { return before[k+d] }
		prev := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			prev = k + 1
		}
		px := at(prev)
		op := edit{px, px, px - prev, px - prev}
		if prev < k {
			op.aEnd++
		} else {
			op.bEnd++
		}
		add(op)
		x, y = op.a, op.b
	}
	for i, j := 0, len(ops)-1; i < j; i, j = i+1, j-1 {
		ops[i], ops[j] = ops[j], ops[i]
	}
	return ops
}
