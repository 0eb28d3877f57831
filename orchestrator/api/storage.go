package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/api/wire"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Storage is the part of Service for the store. Progress may be reported often; it may be nil.
type Storage interface {
	CheckStore(ctx context.Context, progress func(StoreProgress)) (StoreReport, error)
	CompactStore(ctx context.Context, progress func(StoreProgress)) (Compaction, error)
	// BackupStore writes a backup, as of one moment, to the writer that open returns; its files have size bytes. After an error the
	// backup is truncated.
	BackupStore(ctx context.Context, open func(size int64) io.Writer) error
	Prune(ctx context.Context, r PruneRequest, progress func(StoreProgress)) ([]Pruned, error)
}

// StoreProgress is how far a long work on the store, or a removal, has come.
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

// HostReport is the result of a check of the sprite host's own database. Its faults are among the findings, with the
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

func storageRoutes(s Storage) []route.Route {
	return []route.Route{
		route.Raw[exchange.Line[StoreProgress, StoreReport]](route.Admin, http.MethodPost, "/store/check", "Check the store; the last line has the result.", exchange.MediaLines,
			func(w http.ResponseWriter, r *http.Request) { exchange.SendLines(w, r, s.CheckStore) }),
		route.Raw[exchange.Line[StoreProgress, Compaction]](route.Admin, http.MethodPost, "/store/compact", "Compact the store; the last line has the result.", exchange.MediaLines,
			func(w http.ResponseWriter, r *http.Request) { exchange.SendLines(w, r, s.CompactStore) }),
		route.Raw[route.Bytes](route.Admin, http.MethodGet, "/store/backup", "Return a backup of the store.", mediaTar, func(w http.ResponseWriter, r *http.Request) { sendBackup(w, r, s) }),
		pruneRoute(s),
	}
}

// pruneRoute answers with a list, or also tells how far it is.
func pruneRoute(s Storage) route.Route {
	r := route.Post(route.Admin, "/prune", "Remove the remains of ended runs.", func(r *http.Request, in PruneRequest) ([]Pruned, error) { return s.Prune(r.Context(), in, nil) },
		route.Bool("lines", "answer with lines, as /store/check does"))
	plain := r.Serve
	r.Serve = func(w http.ResponseWriter, r *http.Request) {
		var in PruneRequest
		if !exchange.IsSet(r, "lines") {
			plain(w, r)
		} else if exchange.Read(w, r, &in) {
			exchange.SendLines(w, r, func(ctx context.Context, progress func(StoreProgress)) ([]Pruned, error) {
				return s.Prune(ctx, in, progress)
			})
		}
	}
	return r
}

// headerBackupSize is the header of a backup with the bytes of the files in it, which the length of the answer slightly exceeds.
const headerBackupSize = "Lattice-Backup-Size"

func sendBackup(w http.ResponseWriter, r *http.Request, s Storage) {
	begun := false
	err := s.BackupStore(r.Context(), func(size int64) io.Writer {
		begun = true
		w.Header().Set(headerBackupSize, strconv.FormatInt(size, 10))
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

// CheckStore has the leader check its store.
func (c StoreCalls) CheckStore(ctx context.Context, progress func(StoreProgress)) (StoreReport, error) {
	return callWatched[StoreReport](ctx, c.connection, Root+"/store/check", nil, nil, progress)
}

// CompactStore has the leader compact its store.
func (c StoreCalls) CompactStore(ctx context.Context, progress func(StoreProgress)) (Compaction, error) {
	return callWatched[Compaction](ctx, c.connection, Root+"/store/compact", nil, nil, progress)
}

func callWatched[T any](ctx context.Context, c *connection, path string, q url.Values, in any, progress func(StoreProgress)) (T, error) {
	var out T
	resp, err := c.Do(ctx, "POST", path, q, in)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var line struct {
			exchange.Line[StoreProgress, T]
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

// Backup copies a backup of the leader's store to the writer that open returns; its files have size bytes, 0 if the leader does not
// tell. One that was cut short is an error.
func (c StoreCalls) Backup(ctx context.Context, open func(size uint64) io.Writer) error {
	resp, err := c.Do(ctx, "GET", Root+"/store/backup", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	size, _ := strconv.ParseUint(resp.Header.Get(headerBackupSize), 10, 64) // 0 if it is not told
	_, err = io.Copy(open(size), resp.Body)
	return wire.MarkGone(err)
}

// Scrub takes the keys that agents were handed over out of their files in a sprite.
func (c StoreCalls) Scrub(ctx context.Context, sprite string) error {
	_, err := call[struct{}](ctx, c.connection, "POST", path("sprites", sprite, "scrub"), nil, nil)
	return err
}

// Prune removes the remains of ended runs. progress may be nil.
func (c StoreCalls) Prune(ctx context.Context, r PruneRequest, progress func(StoreProgress)) ([]Pruned, error) {
	return callWatched[[]Pruned](ctx, c.connection, Root+"/prune", url.Values{"lines": {"true"}}, r, progress)
}
