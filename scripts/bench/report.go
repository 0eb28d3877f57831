package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report is everything that was measured.
type report struct {
	Machine machine  `json:"machine"`
	Figures []figure `json:"figures"`
}

// figure is one measured value, with the program that it is compared with.
type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Beside  string  `json:"beside,omitempty"`  // the program or value that it is compared with
	Ratio   float64 `json:"ratio,omitempty"`   // to that, in the sense that the target has
	Target  string  `json:"target,omitempty"`  // such as "≤ 1.8"
	Met     *bool   `json:"met,omitempty"`     // absent without a target
	Skipped string  `json:"skipped,omitempty"` // why there is no value
}

func (r *report) add(figures []figure, err error) error {
	r.Figures = append(r.Figures, figures...)
	return err
}

// atMost and atLeast give a figure its target.
func (f figure) atMost(got, limit float64) figure  { return f.judged("≤", got <= limit, limit) }
func (f figure) atLeast(got, limit float64) figure { return f.judged("≥", got >= limit, limit) }

func (f figure) judged(sign string, met bool, limit float64) figure {
	f.Target, f.Met = fmt.Sprintf("%s %g", sign, limit), &met
	return f
}

func (r report) print(out io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %d × %s, %s\n", m.Time, m.CPUs, m.CPU, m.System)
	fmt.Fprintf(&b, "commit %s, load %s before and %s after\n", m.Commit, m.LoadBefore, m.LoadAfter)
	fmt.Fprintf(&b, "raw commits (write 4 KiB + fdatasync) in %s: %.0f/s\n", m.Folder, m.CommitsPerSecond)
	for _, v := range m.Versions {
		fmt.Fprintln(&b, v)
	}
	b.WriteByte('\n')
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tvalue\t×\tbeside\ttarget")
	for _, f := range r.Figures {
		value, ratio, verdict := fmt.Sprintf("%.4g %s", f.Value, f.Unit), "", ""
		if f.Skipped != "" {
			value = "skipped: " + f.Skipped
		}
		if f.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", f.Ratio)
		}
		if f.Met != nil {
			verdict = f.Target + " missed"
			if *f.Met {
				verdict = f.Target + " met"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, value, ratio, f.Beside, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
