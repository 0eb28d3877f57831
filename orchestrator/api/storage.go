package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/wire"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Storage is the part of Service for the store. Progress may be reported often; it may be nil.
type Storage interface {
	CheckStore(ctx context.Context, progress func(StoreProgress)) (StoreReport, error)
	CompactStore(ctx context.Context, progress func(StoreProgress)) (Compaction, error)
	// BackupStore writes a backup, as of one moment, to the writer that open returns. After an error the backup is truncated.
	BackupStore(ctx context.Context, open func() io.Writer) error
}

// StoreProgress is how far a long work on the store has come.
type StoreProgress struct {
	Doing string `json:"doing"`
	Done  uint64 `json:"done"`
	Of    uint64 `json:"of"` // in the same unit; of one part of the work
}

// StoreReport holds the findings of a check of a store.
type StoreReport struct {
	OK       bool           `json:"ok"`
	Path     string         `json:"path"`
	Bytes    int64          `json:"bytes"`
	Runs     int            `json:"runs"`
	Entries  int            `json:"entries"`
	Host     *HostReport    `json:"host,omitempty"` // of the embedded sprite host, where there is one
	Findings []StoreFinding `json:"findings"`
}

// HostReport is what a check found of the sprite host's own database. What is wrong with it is among the findings, with the
// code "sprites".
type HostReport struct {
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Sprites int    `json:"sprites"`
}

// StoreFinding is one fault of a store, with its remedy.
type StoreFinding struct {
	Code    string `json:"code"`
	RunID   string `json:"run_id,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Compaction holds the size of the store before and after.
type Compaction struct {
	BytesBefore int64 `json:"bytes_before"`
	BytesAfter  int64 `json:"bytes_after"`
}

// storeLine is one line of an answer that takes long: progress, at last the result.
type storeLine[T any] struct {
	Progress *StoreProgress `json:"progress,omitempty"`
	Result   *T             `json:"result,omitempty"`
}

func storageRoutes(s Storage) []Route {
	return []Route{
		raw[storeLine[StoreReport]](Admin, http.MethodPost, "/store/check", "Check the store; the last line has the result.", exchange.MediaLines,
			func(w http.ResponseWriter, r *http.Request) { long(w, r, s.CheckStore) }),
		raw[storeLine[Compaction]](Admin, http.MethodPost, "/store/compact", "Compact the store; the last line has the result.", exchange.MediaLines,
			func(w http.ResponseWriter, r *http.Request) { long(w, r, s.CompactStore) }),
		raw[empty](Admin, http.MethodGet, "/store/backup", "Return a backup of the store.", mediaTar, func(w http.ResponseWriter, r *http.Request) { sendBackup(w, r, s) }),
	}
}

func sendBackup(w http.ResponseWriter, r *http.Request, s Storage) {
	begun := false
	err := s.BackupStore(r.Context(), func() io.Writer {
		begun = true
		w.Header().Set("Content-Type", mediaTar)
		return w
	})
	switch {
	case err != nil && begun:
		panic(http.ErrAbortHandler) // so that the client does not take it for the end
	case err != nil:
		exchange.Fail(w, err)
	}
}

// long answers with progress as NDJSON, and with the result or a problem as the last line.
func long[T any](w http.ResponseWriter, r *http.Request, work func(context.Context, func(StoreProgress)) (T, error)) {
	w.Header().Set("Content-Type", exchange.MediaLines)
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	out, err := work(r.Context(), func(p StoreProgress) {
		_ = enc.Encode(storeLine[T]{Progress: &p}) // a client that is gone ends the context
		_ = flush.Flush()
	})
	if err != nil {
		_ = enc.Encode(exchange.AsFault(err))
		return
	}
	_ = enc.Encode(storeLine[T]{Result: &out})
}

// CheckStore has the leader check its store.
func (c StoreCalls) CheckStore(ctx context.Context, progress func(StoreProgress)) (StoreReport, error) {
	return watched[StoreReport](ctx, c.connection, Root+"/store/check", progress)
}

// CompactStore has the leader compact its store.
func (c StoreCalls) CompactStore(ctx context.Context, progress func(StoreProgress)) (Compaction, error) {
	return watched[Compaction](ctx, c.connection, Root+"/store/compact", progress)
}

func watched[T any](ctx context.Context, c *connection, path string, progress func(StoreProgress)) (T, error) {
	var out T
	resp, err := c.Do(ctx, "POST", path, nil, nil)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var line struct {
			storeLine[T]
			fault.Error
		}
		if err := dec.Decode(&line); err != nil {
			return out, wire.MarkGone(err)
		}
		switch {
		case line.Exit != 0:
			return out, &fault.Error{Fault: line.Fault, Exit: line.Exit}
		case line.Result != nil:
			return *line.Result, nil
		case line.Progress != nil && progress != nil:
			progress(*line.Progress)
		}
	}
}

// Backup copies a backup of the leader's store to w. One that was cut short is an error.
func (c StoreCalls) Backup(ctx context.Context, w io.Writer) error {
	resp, err := c.Do(ctx, "GET", Root+"/store/backup", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return wire.MarkGone(err)
}

// Scrub takes the keys that agents were handed over out of their files in a sprite.
func (c StoreCalls) Scrub(ctx context.Context, sprite string) error {
	_, err := call[struct{}](ctx, c.connection, "POST", path("sprites", sprite, "scrub"), nil, nil)
	return err
}

// Prune removes the remains of ended runs.
func (c StoreCalls) Prune(ctx context.Context, r PruneRequest) ([]Pruned, error) {
	return call[[]Pruned](ctx, c.connection, "POST", Root+"/prune", nil, r)
}
