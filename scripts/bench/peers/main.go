// Command peers runs the same flows with this repository's engine and with others, in turn, and prints one JSON object:
// what was run, and a figure for each. go run ./scripts/bench --peers runs it and makes a table of that. It is a module of
// its own, so that nothing of the others reaches the product.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spritekit/lattice/scripts/bench/peers/disk"
	"github.com/spritekit/lattice/scripts/bench/peers/lattice"
	"github.com/spritekit/lattice/scripts/bench/peers/nats"
	"github.com/spritekit/lattice/scripts/bench/peers/peer"
	"github.com/spritekit/lattice/scripts/bench/peers/restate"
	"github.com/spritekit/lattice/scripts/bench/peers/river"
	"github.com/spritekit/lattice/scripts/bench/peers/temporal"
)

// kinds lists the engines. All others are compared with the first; the second is the limit of all.
var kinds = []peer.Kind{{Name: "lattice", Open: lattice.Open}, {Name: "disk", Open: disk.Open}, {Name: "NATS", Open: nats.Open}, {Name: "River", Open: river.Open}, {Name: "Restate", Open: restate.Open}, {Name: "Temporal", Open: temporal.Open}}

// output has the members that scripts/bench reads.
type output struct {
	About   []string `json:"about"`
	Figures []figure `json:"figures"`
}

type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Beside  string  `json:"beside,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Skipped string  `json:"skipped,omitempty"`
}

// runner is an engine that is there, and what it did in the rounds of a cell.
type runner struct {
	peer.Engine
	name  string
	rates []float64       // steps a second, one a round
	took  []time.Duration // per step, one a flow
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	rounds := flag.Int("rounds", 3, "how often each engine has its turn")
	turn := flag.Duration("turn", 500*time.Millisecond, "for how long flows are begun in each")
	flag.Parse()
	out, err := compare(ctx, *rounds, *turn)
	stop()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// compare opens every engine that can be had, and lets them run in turn.
func compare(ctx context.Context, rounds int, turn time.Duration) (out output, err error) {
	dir, err := os.MkdirTemp("", "lattice-peers-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL may have to be another user
		return out, err
	}
	var there []*runner
	for i, k := range kinds {
		own := filepath.Join(dir, strings.ToLower(k.Name))
		if err := os.Mkdir(own, 0o700); err != nil {
			return out, err
		}
		fmt.Fprintln(os.Stderr, "peers: open", k.Name, "…")
		e, err := k.Open(ctx, own)
		switch {
		case err != nil && (i == 0 || ctx.Err() != nil):
			return out, fmt.Errorf("%s: %w", k.Name, err)
		case err != nil:
			out.Figures = append(out.Figures, figure{Name: k.Name, Skipped: fmt.Sprintf("%.160s", strings.Join(strings.Fields(err.Error()), " "))})
		default:
			defer func() { err = errors.Join(err, e.Close()) }()
			there = append(there, &runner{Engine: e, name: k.Name})
			out.About = append(out.About, e.About())
		}
	}
	for _, fork := range []bool{false, true} {
		for _, steps := range peer.Lengths {
			for _, atOnce := range []int{1, 8, 64} {
				if steps*atOnce > 1000 {
					continue // takes minutes, and says what shorter flows say
				}
				what := fmt.Sprintf("%s, %d a flow, %d at once", map[bool]string{false: "steps that do nothing", true: "steps that are a process"}[fork], steps, atOnce)
				fmt.Fprintln(os.Stderr, "peers:", what, "…")
				if err := race(ctx, there, peer.Flow{Steps: steps, Fork: fork}, atOnce, rounds, turn); err != nil {
					return out, fmt.Errorf("%s: %w", what, err)
				}
				out.Figures = append(out.Figures, figures(what, there)...)
			}
		}
	}
	return out, nil
}

// race lets all run in turn, so many rounds after a flow each that does not count.
func race(ctx context.Context, all []*runner, f peer.Flow, atOnce, rounds int, turn time.Duration) error {
	for round := range rounds + 1 {
		for i := range all {
			r := all[(i+round)%len(all)] // nobody is always the first
			if round == 0 {
				r.rates, r.took = nil, nil
				if _, _, err := r.turn(ctx, f, 1, 0); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				continue
			}
			rate, took, err := r.turn(ctx, f, atOnce, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.rates, r.took = append(r.rates, rate), append(r.took, took...)
		}
	}
	return nil
}

// flows counts those that were begun.
var flows atomic.Int64

// turn begins flows for so long, each when another has ended, and waits for all of them.
func (r *runner) turn(ctx context.Context, f peer.Flow, atOnce int, length time.Duration) (rate float64, took []time.Duration, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex // guards took and err
	before, began := peer.Made(), time.Now()
	for range atOnce {
		group.Go(func() {
			for flow := f; ; {
				start := time.Now()
				flow.ID = fmt.Sprintf("%020d", flows.Add(1))
				wrong := r.Run(ctx, flow)
				mu.Lock()
				took, err = append(took, time.Since(start)/time.Duration(f.Steps)), cmp.Or(err, wrong)
				mu.Unlock()
				if wrong != nil || time.Since(began) >= length {
					return
				}
			}
		})
	}
	group.Wait()
	steps := int64(len(took) * f.Steps)
	if made := peer.Made() - before; err == nil && made != steps { // nobody is fast by leaving out
		err = fmt.Errorf("%d steps were made instead of %d", made, steps)
	}
	return float64(steps) / time.Since(began).Seconds(), took, err
}

func figures(what string, all []*runner) []figure {
	var out []figure
	for i, r := range all {
		slices.Sort(r.took)
		us := func(percent int) float64 { return float64(r.took[len(r.took)*percent/100].Nanoseconds()) / 1000 }
		f := figure{Name: what + ": " + r.name, Value: median(r.rates), Unit: "steps/s", Beside: fmt.Sprintf("a step takes %.0f µs (p99 %.0f)", us(50), us(99))}
		if i > 0 {
			var ratios []float64
			for round, rate := range r.rates {
				ratios = append(ratios, all[0].rates[round]/rate)
			}
			f.Ratio = median(ratios)
		}
		out = append(out, f)
	}
	return out
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
