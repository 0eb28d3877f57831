package history

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	KeepAutos   = 2 // automatic checkpoints that a sprite keeps
	maxComment  = 4 << 10
	reportEvery = 5 * time.Second // of progress streams
)

func (hs *API) CreateCheckpoint(w http.ResponseWriter, r *http.Request) error {
	return hs.CheckpointNamed(w, r, r.PathValue("name"), false)
}

// CheckpointNamed answers a request for a checkpoint, from outside or from inside the sprite. One from inside is durable in
// any case: a skill waits for it.
func (hs *API) CheckpointNamed(w http.ResponseWriter, r *http.Request, name string, inside bool) error {
	var in struct {
		Comment string `json:"comment"`
		Durable bool   `json:"durable"` // answer when the checkpoint survives a loss of power
	}
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if len(in.Comment) > maxComment {
		return wire.BadRequest(fmt.Sprintf("the comment is longer than %d bytes", maxComment))
	}
	in.Durable = inside || in.Durable || r.URL.Query().Get("durable") == "true"
	return hs.reportProgress(w, r, "Creating checkpoint...", func(ctx context.Context) ([]sprites.Progress, error) {
		if err := hs.announceCapture(ctx, name); err != nil {
			return nil, err
		}
		p, err := hs.takeCheckpoint(ctx, name, in.Comment)
		if err == nil && in.Durable {
			err = hs.Settler.Settle(ctx)
		}
		return []sprites.Progress{
			{Type: "info", Data: "Checkpoint created successfully"},
			{Type: "info", Data: "  ID: " + p.ID},
			{Type: "info", Data: "  Path: checkpoints/" + p.ID},
			{Type: "complete", Data: "Checkpoint " + p.ID + " created successfully", CheckpointID: p.ID},
		}, err
	})
}

// announceCapture tells the owner of the host that the present files of a sprite are about to be kept. The caller is not at its gate.
func (hs *API) announceCapture(ctx context.Context, name string) error {
	if hs.Config.BeforeCheckpoint == nil {
		return nil
	}
	err := hs.Config.BeforeCheckpoint(ctx, name)
	var answer *sprites.APIError
	var lost *sprites.LostError
	var conn *sprites.ConnError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &answer) && answer.Status >= 500: // this host closes, or lacks something for the moment
		return wire.Refuse(answer.Status, answer.Code, err.Error())
	case errors.As(err, &lost), errors.As(err, &conn):
		return wire.Refuse(http.StatusServiceUnavailable, "unavailable", err.Error())
	}
	return wire.Refuse(http.StatusConflict, sprites.CodeKeysKept, err.Error())
}

// takeCheckpoint saves the sprite's files. Commands continue. It is alone, so that no file call writes at that moment
// and none starts a command.
func (hs *API) takeCheckpoint(ctx context.Context, name, comment string) (records.Checkpoint, error) {
	none := records.Checkpoint{}
	if err := hs.CheckSpace(); err != nil {
		return none, err
	}
	s, rec, leave, err := hs.Sprites.Enter(ctx, name, fleet.Alone)
	if err != nil {
		return none, err
	}
	defer leave()
	if why := hs.Layers.WhyDegraded(rec.Tree); why != "" {
		return none, wire.Degraded(why)
	}
	now, err := hs.captureFiles(ctx, s, rec)
	if err != nil {
		return none, fmt.Errorf("checkpoint %s: %w", name, err)
	}
	p, garbage, err := hs.Store.AddCheckpoint(name, records.Checkpoint{Comment: comment, CreateTime: hs.Now()}, now, hs.Layers.IsMounted)
	if err != nil {
		hs.Layers.Abandon(now.Made...)
		return none, fmt.Errorf("checkpoint %s: %w", name, err)
	}
	hs.Step("checkpointed")
	hs.Layers.Discard(garbage...)
	hs.Settler.SettleLater(p.Tree)
	hs.Merger.MergeLater(p.Tree)
	hs.Config.Log.Info().Str("sprite", name).Str("checkpoint", p.ID).Msg("checkpoint created")
	if now.Ended {
		s.Resume(name)
	}
	s.RefreshView()
	return p, nil
}

func (hs *API) Restore(w http.ResponseWriter, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	return hs.reportProgress(w, r, "Restoring from checkpoint "+id+"...", func(ctx context.Context) ([]sprites.Progress, error) {
		return []sprites.Progress{
			{Type: "info", Data: "Container components started successfully"},
			{Type: "complete", Data: "Restore from " + id + " complete", CheckpointID: id},
		}, hs.restoreTo(ctx, name, id)
	})
}

// restoreTo makes the checkpoint's files the sprite's state. The state until then becomes an automatic checkpoint. Before
// the commit the sprite is as it was, except that its sessions have ended.
func (hs *API) restoreTo(ctx context.Context, name, id string) error {
	if err := hs.CheckSpace(); err != nil {
		return err
	}
	unclean := hs.announceCapture(ctx, name) // a restore may be the remedy
	s, rec, leave, err := hs.Sprites.Enter(ctx, name, fleet.Alone)
	if err != nil {
		return err
	}
	defer leave()
	p, err := hs.Store.Checkpoint(s.ID, id)
	if err != nil {
		return err
	}
	frozen, err := hs.usableLayer(ctx, p)
	if err != nil {
		return err
	}
	fresh, err := hs.Merger.Continue(ctx, frozen)
	if err != nil {
		return fmt.Errorf("restore %s to %s: %w", name, id, err)
	}
	if err := s.Stop(); err != nil {
		hs.Layers.Discard(fresh)
		return fmt.Errorf("restore %s to %s: end what runs: %w", name, id, err)
	}
	hs.Step("stopped")
	comment := "" // of the checkpoint of the present state; a degraded state is not kept
	if hs.Layers.WhyDegraded(rec.Tree) == "" {
		comment = "state before the restore of " + id
		if unclean != nil {
			comment = fmt.Sprintf("%s; it may hold keys of agents: %.200s", comment, unclean)
		}
		if err := hs.completePresent(ctx, rec); err != nil {
			hs.Layers.Discard(fresh)
			return fmt.Errorf("restore %s to %s: keep the present state: %w", name, id, err)
		}
	}
	garbage, err := hs.Store.Restore(name, fresh, id, comment, hs.Now(), KeepAutos, hs.Layers.IsMounted)
	if err != nil {
		hs.Layers.Abandon(fresh)
		return fmt.Errorf("restore %s to %s: %w", name, id, err)
	}
	hs.Step("restored")
	if comment != "" {
		hs.Settler.SettleLater(rec.Tree)
	}
	hs.Layers.Discard(garbage...)
	hs.Config.Log.Info().Str("sprite", name).Str("checkpoint", id).Msg("restored")
	s.Resume(name)
	return nil
}

// completePresent readies the present files of a sprite, in which nothing runs, for being frozen.
func (hs *API) completePresent(ctx context.Context, rec records.Sprite) error {
	now, err := hs.Store.Layer(rec.Tree)
	if err != nil {
		return err
	}
	d, err := hs.Layers.Open(now)
	if err != nil {
		return err
	}
	return hs.completeLayer(ctx, d, now, hs.Layers.LayerDir(now.ID))
}

// quickly is the size of layers that are copied for a checkpoint while their sandbox goes on: to copy so much takes less time
// than to end a sandbox and to start another.
const (
	quicklyEntries = 512
	quicklyBytes   = 4 << 20
)

// usableLayer returns the frozen layer of a checkpoint, or why its files cannot be used any more.
func (hs *API) usableLayer(ctx context.Context, p records.Checkpoint) (records.Layer, error) {
	if why := hs.Layers.WhyDegraded(p.Tree); why != "" {
		return records.Layer{}, lostCheckpoint(p.ID, why)
	}
	l, err := hs.Store.Layer(p.Tree)
	if err != nil {
		return l, err
	}
	quick := l.Entries <= quicklyEntries && l.Bytes <= quicklyBytes
	if l.Digest != "" && (quick || l.Unverified) {
		why, err := hs.Settler.VerifyLayer(ctx, l)
		if err != nil {
			return l, err
		}
		if why != "" {
			return l, lostCheckpoint(p.ID, why)
		}
	}
	return l, nil
}

func lostCheckpoint(id, why string) error {
	return wire.Refuse(http.StatusConflict, "checkpoint_lost", "checkpoint "+id+" cannot be used: "+strings.TrimSuffix(why, "; restore a checkpoint or delete the sprite")+"; use another one")
}

func (hs *API) ListCheckpoints(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	list := CheckpointList{Autos: q.Get("includeAuto") == "true", History: q.Get("history")}
	if before := q.Get("before"); before != "" {
		if list.before = records.NumberOf(before); list.before == 0 {
			return wire.Refuse(http.StatusBadRequest, "bad_request", "before must be the id of a checkpoint")
		}
	}
	if n, err := strconv.Atoi(q.Get("max_results")); err == nil && n > 0 {
		list.most = n
	}
	return hs.ListNamed(w, r.PathValue("name"), list)
}

// CheckpointList says which checkpoints are listed.
type CheckpointList struct {
	Autos   bool   // also automatic ones
	History string // if not "", those that this one descends from, as lines of text
	before  uint64 // only those with a smaller number, and without the present state; 0 is all
	most    int    // at most so many entries; 0 is all
}

// ListNamed answers with the checkpoints, newest first, below the entry of the present state.
func (hs *API) ListNamed(w http.ResponseWriter, name string, list CheckpointList) error {
	rec, err := hs.Store.Sprite(name)
	if err != nil {
		return err
	}
	points, err := hs.Store.Checkpoints(rec.ID)
	if err != nil {
		return err
	}
	if list.History != "" {
		return writeHistory(w, points, list.History)
	}
	out := []sprites.Checkpoint{}
	if list.before == 0 {
		out = append(out, sprites.Checkpoint{ID: sprites.Current, CreateTime: rec.UpdatedAt, SourceID: rec.Source})
	}
	for _, p := range slices.Backward(points) {
		if list.most > 0 && len(out) == list.most {
			break
		}
		if (list.Autos || !p.Auto) && (list.before == 0 || p.Number() < list.before) {
			out = append(out, hs.describeCheckpoint(p))
		}
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

func writeHistory(w http.ResponseWriter, points []records.Checkpoint, id string) error {
	byID := map[string]records.Checkpoint{}
	for _, p := range points {
		byID[p.ID] = p
	}
	if _, ok := byID[id]; !ok {
		return records.ErrNoCheckpoint
	}
	var text strings.Builder
	for p, ok := byID[id]; ok; p, ok = byID[p.Source] {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", p.ID, p.CreateTime.Format(time.RFC3339), strings.ReplaceAll(p.Comment, "\n", " "))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte(text.String()))
	return err
}

func (hs *API) describeCheckpoint(p records.Checkpoint) sprites.Checkpoint {
	out := sprites.Checkpoint{ID: p.ID, CreateTime: p.CreateTime, SourceID: p.Source, Comment: p.Comment, IsAuto: p.Auto}
	if chain, err := hs.Store.Chain(p.Tree); err == nil && len(chain) > 0 {
		out.Durable, out.Bytes = true, chain[0].Bytes
		for _, l := range chain {
			out.Durable, out.Unverified = out.Durable && l.Durable, out.Unverified || l.Unverified
		}
	}
	if hs.Layers.WhyDegraded(p.Tree) != "" {
		out.Health = "mount_failed" // the API's one word for a checkpoint that cannot be used
	}
	return out
}

func (hs *API) GetCheckpoint(w http.ResponseWriter, r *http.Request) error {
	return hs.GetNamed(w, r.PathValue("name"), r.PathValue("id"))
}

func (hs *API) GetNamed(w http.ResponseWriter, name, id string) error {
	rec, err := hs.Store.Sprite(name)
	if err != nil {
		return err
	}
	if id == sprites.Current {
		wire.WriteJSON(w, http.StatusOK, sprites.Checkpoint{ID: id, CreateTime: rec.UpdatedAt, SourceID: rec.Source})
		return nil
	}
	p, err := hs.Store.Checkpoint(rec.ID, id)
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, hs.describeCheckpoint(p))
	return nil
}

func (hs *API) DeleteCheckpoint(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if id == sprites.Current {
		return wire.Refuse(http.StatusConflict, "active_checkpoint", "the present state cannot be deleted")
	}
	// Alone, so that no restore copies the tree that goes.
	s, _, leave, err := hs.Sprites.Enter(r.Context(), r.PathValue("name"), fleet.Alone)
	if err != nil {
		return err
	}
	defer leave()
	garbage, err := hs.Store.DeleteCheckpoint(s.ID, id, hs.Layers.IsMounted)
	if err != nil {
		return err
	}
	hs.Step("forgotten")
	s.RefreshView()
	hs.Layers.Discard(garbage...)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// reportProgress runs work and answers with a progress stream. The stream begins when work has succeeded or takes long: a quick
// failure is an answer with a proper status, a late one is a line in the stream, as the API has it.
func (hs *API) reportProgress(w http.ResponseWriter, r *http.Request, first string, work func(context.Context) ([]sprites.Progress, error)) error {
	type result struct {
		said []sprites.Progress
		err  error
	}
	done := make(chan result, 1)
	go func() { // awaited below
		said, err := work(r.Context())
		done <- result{said, err}
	}()
	var out *wire.Lines
	send := func(p sprites.Progress) {
		if out == nil {
			out = wire.NewLines(w)
			out.Send(sprites.Progress{Type: "info", Data: first, Time: hs.Now()})
		}
		p.Time = hs.Now()
		out.Send(p)
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			send(sprites.Progress{Type: "info", Data: "Still working..."})
			continue
		case res := <-done:
			if res.err != nil && out == nil {
				return res.err
			}
			if res.err != nil {
				hs.Config.Log.Error().Err(res.err).Str("path", r.URL.Path).Msg("request failed")
				text := res.err.Error()
				if refusal := wire.Classify(res.err); refusal.Status == http.StatusInsufficientStorage {
					text = refusal.Code + ": " + refusal.Message
				}
				send(sprites.Progress{Type: "error", Error: text})
				return nil
			}
			for _, p := range res.said {
				send(p)
			}
			return nil
		}
	}
}
