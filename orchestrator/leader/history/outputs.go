package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// maxLog bounds a run's log file.
const maxLog = 64 << 20

// Outputs keeps the output of skills that is not an event, in a log file for each run. A second file says which node wrote which
// part; see [owner].
type Outputs struct {
	Home     home.Home
	Logger   zerolog.Logger
	Records  *Records
	Watchers interface {
		Notify(run string)
	}

	mu sync.Mutex // one write at a time
}

// writerOf appends the output of a node to the log of a run. It opens the file for each write: a call prints little, and runs
// are many.
type writerOf struct {
	outputs *Outputs
	run     string
	node    string // "" is output of no node
	end     int64  // of the log after the last write; guarded by Outputs.mu
}

// Write appends to the log up to maxLog and drops the rest. It never fails: a full disk loses lines of the log, not the run.
func (w *writerOf) Write(p []byte) (int, error) {
	if w.outputs.appendTo(w, p) {
		w.outputs.Watchers.Notify(w.run)
	}
	return len(p), nil
}

func (o *Outputs) appendTo(w *writerOf, p []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, err := os.OpenFile(o.path(w.run), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size()+int64(len(p)) > maxLog {
		return false
	}
	if at := info.Size(); at != w.end { // another writer came in between
		if err := appendOwner(o.ownersPath(w.run), owner{at, w.node}); err != nil {
			return false
		}
	}
	n, _ := f.Write(p)
	w.end = info.Size() + int64(n)
	return true
}

// Open opens the log of a run for the output of one of its nodes, which is the stderr of its skills and stdout that is
// neither event nor result.
func (o *Outputs) Open(run, node string) io.Writer {
	if err := os.MkdirAll(o.Home.Run(run), 0o700); err != nil {
		o.Logger.Warn().Err(err).Str("run_id", run).Str("trace_id", tracecontext.TraceID(run)).Msg("make run directory")
		return io.Discard
	}
	return &writerOf{outputs: o, run: run, node: node, end: -1}
}

func (o *Outputs) path(run string) string { return filepath.Join(o.Home.Run(run), "output.log") }

func (o *Outputs) ownersPath(run string) string {
	return filepath.Join(o.Home.Run(run), "output.nodes")
}

// Log opens the output log of a run at a byte offset. With a node it opens only the output of that node and of nodes inside
// of it, and the offset counts the bytes of this output.
func (o *Outputs) Log(_ context.Context, id, node string, offset int64) (io.ReadCloser, error) {
	id, err := o.Records.Resolve(id)
	if err != nil {
		return nil, err
	}
	var nodes []string
	if node != "" {
		if nodes, err = o.listNodes(id, node); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(o.path(id))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run log: %w", err)
	}
	if node != "" {
		r, err := o.openNodes(f, id, nodes, offset)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return readCloser{r, f}, nil
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("read run log: %w", err), f.Close())
	}
	return f, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// listNodes returns the nodes of a run's flow that have a name, with the nodes inside of them.
func (o *Outputs) listNodes(run, name string) (found []string, err error) {
	rec, err := o.Records.Load(run)
	if err != nil {
		return nil, err
	}
	var flow ir.Document
	if err := json.Unmarshal(rec.Program, &flow); err != nil {
		return nil, fmt.Errorf("read the program of %s: %w", run, err)
	}
	var all []string
	ir.WalkNodes(flow.Nodes, "", func(n *ir.Node, _ string) {
		if all = append(all, n.ID); n.ID == name {
			ir.WalkNodes([]ir.Node{*n}, "", func(in *ir.Node, _ string) { found = append(found, in.ID) })
		}
	})
	if len(found) == 0 {
		return nil, fault.NotFound("node_not_found", "the flow of %s has no node %.64q", run, name).WithHint("its nodes are %s", strings.Join(all, ", "))
	}
	return found, nil
}

// openNodes reads the parts of a log that some nodes wrote.
func (o *Outputs) openNodes(f *os.File, run string, nodes []string, offset int64) (io.Reader, error) {
	info, err := f.Stat() // before the owners are read: what follows this size may have an owner that is not read
	if err != nil {
		return nil, fmt.Errorf("read run log: %w", err)
	}
	owners, err := readOwners(o.ownersPath(run))
	if err != nil {
		return nil, err
	}
	var parts []io.Reader
	for _, p := range partsOf(owners, nodes, info.Size()) {
		length := p.to - p.from
		skipped := min(offset, length)
		offset -= skipped
		parts = append(parts, io.NewSectionReader(f, p.from+skipped, length-skipped))
	}
	return io.MultiReader(parts...), nil
}
