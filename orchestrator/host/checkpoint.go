package host

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	keepAutos   = 2 // automatic checkpoints that a sprite keeps
	maxComment  = 4 << 10
	reportEvery = 5 * time.Second // of progress streams
)

func (hs *historyAPI) createCheckpoint(w http.ResponseWriter, r *http.Request) error {
	return hs.checkpointNamed(w, r, r.PathValue("name"), false)
}

// checkpointNamed answers a request for a checkpoint, from outside or from inside the sprite. One from inside is durable in
// any case: it is what a skill waits on.
func (hs *historyAPI) checkpointNamed(w http.ResponseWriter, r *http.Request, name string, durable bool) error {
	var in struct {
		Comment string `json:"comment"`
		Durable bool   `json:"durable"` // answer when the checkpoint survives a loss of power
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if len(in.Comment) > maxComment {
		return badRequest(fmt.Sprintf("the comment is longer than %d bytes", maxComment))
	}
	in.Durable = durable || in.Durable || r.URL.Query().Get("durable") == "true"
	return hs.report(w, r, "Creating checkpoint...", func(ctx context.Context) ([]sprites.Progress, error) {
		p, err := hs.checkpoint(ctx, name, in.Comment)
		if err == nil && in.Durable {
			err = hs.settler.settle(ctx)
		}
		return []sprites.Progress{
			{Type: "info", Data: "Checkpoint created successfully"},
			{Type: "info", Data: "  ID: " + p.ID},
			{Type: "info", Data: "  Path: checkpoints/" + p.ID},
			{Type: "complete", Data: "Checkpoint " + p.ID + " created successfully", CheckpointID: p.ID},
		}, err
	})
}

// checkpoint saves the sprite's files. Commands go on meanwhile. It is alone, so that no file call writes at that moment
// and none starts a command.
func (hs *historyAPI) checkpoint(ctx context.Context, name, comment string) (checkpointRecord, error) {
	none := checkpointRecord{}
	if err := hs.checkRoom(); err != nil {
		return none, err
	}
	s, rec, leave, err := hs.sprites.enter(ctx, name, alone)
	if err != nil {
		return none, err
	}
	defer leave()
	if why := hs.layers.degraded(rec.Tree); why != "" {
		return none, degradedError(why)
	}
	now, err := hs.capture(ctx, s, rec)
	if err != nil {
		return none, fmt.Errorf("checkpoint %s: %w", name, err)
	}
	p, garbage, err := hs.store.addCheckpoint(name, checkpointRecord{Comment: comment, CreateTime: hs.now()}, now, hs.layers.isMounted)
	if err != nil {
		hs.layers.abandon(now.made...)
		return none, fmt.Errorf("checkpoint %s: %w", name, err)
	}
	hs.step("checkpointed")
	hs.layers.discard(garbage...)
	hs.settler.settleLater(p.Tree)
	hs.merger.mergeLater(p.Tree)
	hs.cfg.Log.Info().Str("sprite", name).Str("checkpoint", p.ID).Msg("checkpoint created")
	if now.ended {
		s.resume(name)
	}
	s.refreshView()
	return p, nil
}

func (hs *historyAPI) restore(w http.ResponseWriter, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	return hs.report(w, r, "Restoring from checkpoint "+id+"...", func(ctx context.Context) ([]sprites.Progress, error) {
		return []sprites.Progress{
			{Type: "info", Data: "Container components started successfully"},
			{Type: "complete", Data: "Restore from " + id + " complete", CheckpointID: id},
		}, hs.restoreTo(ctx, name, id)
	})
}

// restoreTo makes the checkpoint's files the sprite's state. The state until then becomes an automatic checkpoint. Before
// the commit the sprite is as it was, except that its sessions have ended.
func (hs *historyAPI) restoreTo(ctx context.Context, name, id string) error {
	if err := hs.checkRoom(); err != nil {
		return err
	}
	s, rec, leave, err := hs.sprites.enter(ctx, name, alone)
	if err != nil {
		return err
	}
	defer leave()
	p, err := hs.store.checkpoint(s.id, id)
	if err != nil {
		return err
	}
	frozen, err := hs.usable(ctx, p)
	if err != nil {
		return err
	}
	fresh, err := hs.merger.onTop(ctx, frozen)
	if err != nil {
		return fmt.Errorf("restore %s to %s: %w", name, id, err)
	}
	if err := s.stop(); err != nil {
		hs.layers.discard(fresh)
		return fmt.Errorf("restore %s to %s: end what runs: %w", name, id, err)
	}
	hs.step("stopped")
	lost := hs.layers.degraded(rec.Tree) != ""
	if !lost {
		if err := hs.completePresent(ctx, rec); err != nil {
			hs.layers.discard(fresh)
			return fmt.Errorf("restore %s to %s: keep the present state: %w", name, id, err)
		}
	}
	garbage, err := hs.store.restored(name, fresh, id, lost, hs.now(), keepAutos, hs.layers.isMounted)
	if err != nil {
		hs.layers.abandon(fresh)
		return fmt.Errorf("restore %s to %s: %w", name, id, err)
	}
	hs.step("restored")
	if !lost {
		hs.settler.settleLater(rec.Tree)
	}
	hs.layers.discard(garbage...)
	hs.cfg.Log.Info().Str("sprite", name).Str("checkpoint", id).Msg("restored")
	s.resume(name)
	return nil
}

// completePresent readies the present files of a sprite, in which nothing runs, for being frozen.
func (hs *historyAPI) completePresent(ctx context.Context, rec spriteRecord) error {
	now, err := hs.store.layer(rec.Tree)
	if err != nil {
		return err
	}
	d, err := hs.layers.open(now)
	if err != nil {
		return err
	}
	return hs.complete(ctx, d, now, hs.layers.layerDir(now.ID))
}

// quickly is the size of layers that are copied for a checkpoint while their sandbox goes on: to copy so much takes less time
// than to end a sandbox and to start another.
const (
	quicklyEntries = 512
	quicklyBytes   = 4 << 20
)

// usable returns the frozen layer of a checkpoint, or why its files cannot be used any more.
func (hs *historyAPI) usable(ctx context.Context, p checkpointRecord) (layerRecord, error) {
	if why := hs.layers.degraded(p.Tree); why != "" {
		return layerRecord{}, lostCheckpoint(p.ID, why)
	}
	l, err := hs.store.layer(p.Tree)
	if err != nil {
		return l, err
	}
	quick := l.Entries <= quicklyEntries && l.Bytes <= quicklyBytes
	if l.Digest != "" && (quick || l.Unverified) {
		why, err := hs.settler.verifyLayer(ctx, l)
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
	return newError(http.StatusConflict, "checkpoint_lost", "checkpoint "+id+" cannot be used: "+strings.TrimSuffix(why, "; restore a checkpoint or delete the sprite")+"; use another one")
}

func (hs *historyAPI) listCheckpoints(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	return hs.listNamed(w, r.PathValue("name"), q.Get("includeAuto") == "true", q.Get("history"))
}

// listNamed answers with the checkpoints, newest first, below the entry of the present state. With history it answers
// with one line of text for each checkpoint that the given one descends from.
func (hs *historyAPI) listNamed(w http.ResponseWriter, name string, autos bool, history string) error {
	rec, err := hs.store.sprite(name)
	if err != nil {
		return err
	}
	points, err := hs.store.checkpoints(rec.ID)
	if err != nil {
		return err
	}
	if history != "" {
		return writeHistory(w, points, history)
	}
	out := []sprites.Checkpoint{{ID: sprites.Current, CreateTime: rec.UpdatedAt, SourceID: rec.Source}}
	for _, p := range slices.Backward(points) {
		if autos || !p.Auto {
			out = append(out, hs.point(p))
		}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func writeHistory(w http.ResponseWriter, points []checkpointRecord, id string) error {
	byID := map[string]checkpointRecord{}
	for _, p := range points {
		byID[p.ID] = p
	}
	if _, ok := byID[id]; !ok {
		return errNoCheckpoint
	}
	var text strings.Builder
	for p, ok := byID[id]; ok; p, ok = byID[p.Source] {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", p.ID, p.CreateTime.Format(time.RFC3339), strings.ReplaceAll(p.Comment, "\n", " "))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte(text.String()))
	return err
}

func (hs *historyAPI) point(p checkpointRecord) sprites.Checkpoint {
	out := sprites.Checkpoint{ID: p.ID, CreateTime: p.CreateTime, SourceID: p.Source, Comment: p.Comment, IsAuto: p.Auto}
	if chain, err := hs.store.chain(p.Tree); err == nil && len(chain) > 0 {
		out.Durable, out.Bytes = true, chain[0].Bytes
		for _, l := range chain {
			out.Durable, out.Unverified = out.Durable && l.Durable, out.Unverified || l.Unverified
		}
	}
	if hs.layers.degraded(p.Tree) != "" {
		out.Health = "mount_failed" // the API's one word for a checkpoint that cannot be used
	}
	return out
}

func (hs *historyAPI) getCheckpoint(w http.ResponseWriter, r *http.Request) error {
	return hs.getNamed(w, r.PathValue("name"), r.PathValue("id"))
}

func (hs *historyAPI) getNamed(w http.ResponseWriter, name, id string) error {
	rec, err := hs.store.sprite(name)
	if err != nil {
		return err
	}
	if id == sprites.Current {
		writeJSON(w, http.StatusOK, sprites.Checkpoint{ID: id, CreateTime: rec.UpdatedAt, SourceID: rec.Source})
		return nil
	}
	p, err := hs.store.checkpoint(rec.ID, id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, hs.point(p))
	return nil
}

func (hs *historyAPI) deleteCheckpoint(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if id == sprites.Current {
		return newError(http.StatusConflict, "active_checkpoint", "the present state cannot be deleted")
	}
	// Alone, so that no restore copies the tree that goes.
	s, _, leave, err := hs.sprites.enter(r.Context(), r.PathValue("name"), alone)
	if err != nil {
		return err
	}
	defer leave()
	garbage, err := hs.store.deleteCheckpoint(s.id, id, hs.layers.isMounted)
	if err != nil {
		return err
	}
	hs.step("forgotten")
	s.refreshView()
	hs.layers.discard(garbage...)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// report runs work and answers with a progress stream. The stream begins when work has succeeded or takes long: a quick
// failure is an answer with a proper status, a late one is a line in the stream, as the API has it.
func (hs *historyAPI) report(w http.ResponseWriter, r *http.Request, first string, work func(context.Context) ([]sprites.Progress, error)) error {
	type result struct {
		said []sprites.Progress
		err  error
	}
	done := make(chan result, 1)
	go func() { // awaited below
		said, err := work(r.Context())
		done <- result{said, err}
	}()
	var out *lines
	send := func(p sprites.Progress) {
		if out == nil {
			out = newLines(w)
			out.send(sprites.Progress{Type: "info", Data: first, Time: hs.now()})
		}
		p.Time = hs.now()
		out.send(p)
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
				hs.cfg.Log.Error().Err(res.err).Str("path", r.URL.Path).Msg("request failed")
				text := res.err.Error()
				if refusal := classify(res.err); refusal.status == http.StatusInsufficientStorage {
					text = refusal.code + ": " + refusal.message
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
