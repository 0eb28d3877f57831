package history

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/network"
	"github.com/spritekit/lattice/orchestrator/host/records"
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early" // the test binary is the helper for files of sub-ids
	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/orchestrator/host/storage"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testWorld is a host without services, commands and an API: the history of sprites in which nothing runs, on a real database
// and real files.
type testWorld struct {
	*testing.T
	*API
}

// anyName is a catalog that takes any name.
type anyName struct{}

func (anyName) CheckNew(string, []string) error           { return nil }
func (anyName) AdmitCreation(context.Context, bool) error { return nil }
func (anyName) Created(rec records.Sprite) any            { return rec.Name }

func newTestWorld(t *testing.T) *testWorld {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &core.Core{
		Config: core.Config{Dir: t.TempDir(), Self: "/none", Log: zerolog.Nop(), Reserve: -1},
		Now:    func() time.Time { now = now.Add(time.Second); return now }, Clock: time.Now, Step: func(string) {},
		Context: ctx, Cancel: cancel,
	}
	var err error
	if c.Store, err = records.Open(c.Config.Dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	confiner := confine.NewConfiner(c)
	confiner.Confined = func() confine.Confinement { return confine.Confinement{Plain: true} } // it starts no sandbox
	layers := storage.NewStore(c, confiner)
	settler := storage.NewSettler(c, layers)
	sprites := fleet.New(c, confiner, layers, network.NewPolicy(c, confiner), share.NewSkills(c), share.NewGoCaches(c, confiner))
	w := &testWorld{T: t, API: NewAPI(c, Parts{
		Sprites: sprites, Catalog: anyName{}, Layers: layers, Merger: storage.NewMerger(c, layers, settler), Settler: settler,
	})}
	if err := w.Sweep(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sprites.Shut()
		cancel()
		err := sprites.Close()
		c.Chores.Wait()
		c.Guards.Wait()
		if err := errors.Join(err, c.Store.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// create makes a sprite with no files.
func (w *testWorld) create(name string) {
	w.Helper()
	made, err := w.Layers.NewRoot(w.T.Context(), "")
	if err != nil {
		w.Fatal(err)
	}
	if err := w.Store.CreateSprite(records.Sprite{ID: "sprite-" + name, Name: name, Tree: made.ID, Labels: []string{"mine"}}, made); err != nil {
		w.Fatal(err)
	}
}

func (w *testWorld) path(sprite, file string) string {
	w.Helper()
	rec, err := w.Store.Sprite(sprite)
	if err != nil {
		w.Fatal(err)
	}
	return filepath.Join(w.Layers.TreeDir(rec.Tree), file)
}

func (w *testWorld) write(sprite, file, content string) {
	w.Helper()
	if err := os.WriteFile(w.path(sprite, file), []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *testWorld) read(sprite, file string) string {
	w.Helper()
	content, err := os.ReadFile(w.path(sprite, file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return string(content)
}

type handler func(http.ResponseWriter, *http.Request) error

// slowClient is a client that does not read the answer before a channel is closed.
type slowClient struct {
	*httptest.ResponseRecorder
	first func()
}

func (c *slowClient) Write(p []byte) (int, error) {
	c.first()
	return c.ResponseRecorder.Write(p)
}

// TestDiffsWaitOutsideOfTheGate checks that a client that does not read a diff does not block other calls at the gate of the sprite.
func TestDiffsWaitOutsideOfTheGate(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	w.mustAsk(w.CreateCheckpoint, "", "s", "", "{}")
	for _, c := range []struct{ file, accept, want string }{
		{"", "", "[]\n"},
		{"", "application/x-ndjson", `{"type":"complete"}` + "\n"},
		{"a", "", `[{"path":"/a",`},
		{"a", "application/x-ndjson", `{"path":"/a",`},
		{"b", "", "}\n" + `,{"path":"/b",`},
		{"b", "application/x-ndjson", "}\n" + `{"path":"/b",`},
	} {
		if c.file != "" {
			w.write("s", c.file, "new")
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetPathValue("name", "s")
		r.Header.Set("Accept", c.accept)
		client := &slowClient{httptest.NewRecorder(), func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _, leave, err := w.Sprites.Enter(ctx, "s", fleet.Alone)
			if err != nil {
				t.Errorf("%q as %q: while the answer waits for its reader: %v", c.file, c.accept, err)
				return
			}
			leave()
		}}
		if err := w.Diff(client, r); err != nil {
			t.Fatal(err)
		}
		if got := client.Body.String(); !strings.Contains(got, c.want) || c.accept != "" && !strings.HasSuffix(got, `{"type":"complete"}`+"\n") {
			t.Errorf("%q as %q: got %q, want %q in it", c.file, c.accept, got, c.want)
		}
	}
}

// ask calls a handler with the path values name and id.
func (w *testWorld) ask(h handler, query, name, id, body string) (string, error) {
	w.Helper()
	r := httptest.NewRequestWithContext(w.T.Context(), http.MethodPost, "/?"+query, strings.NewReader(body))
	r.SetPathValue("name", name)
	r.SetPathValue("id", id)
	answer := httptest.NewRecorder()
	err := h(answer, r)
	return answer.Body.String(), err
}

func (w *testWorld) mustAsk(h handler, query, name, id, body string) string {
	w.Helper()
	answer, err := w.ask(h, query, name, id, body)
	if err != nil {
		w.Fatal(err)
	}
	return answer
}

func decodeAs[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// A restore brings back the files of a checkpoint and keeps the state before it; diffs tell one state from another.
func TestCheckpointDiffRestore(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	w.write("s", "kept", "one")
	w.write("s", "removed", "x")
	if got := w.mustAsk(w.CreateCheckpoint, "", "s", "", `{"comment":"first"}`); !strings.Contains(got, `"checkpoint_id":"v1"`) {
		t.Fatalf("a checkpoint answers %q", got)
	}
	w.write("s", "kept", "three")
	w.write("s", "added", "y")
	if err := os.Remove(w.path("s", "removed")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range decodeAs[[]sprites.Change](t, w.mustAsk(w.Diff, "", "s", "", "")) {
		got = append(got, c.Change+" "+c.Path)
	}
	slices.Sort(got)
	if want := []string{"added /added", "deleted /removed", "modified /kept"}; !slices.Equal(got, want) {
		t.Errorf("the diff is %q, want %q", got, want)
	}
	w.mustAsk(w.Restore, "", "s", "v1", "")
	if kept, added, removed := w.read("s", "kept"), w.read("s", "added"), w.read("s", "removed"); kept != "one" || added != "" || removed != "x" {
		t.Errorf("after the restore: %q, %q, %q", kept, added, removed)
	}
	if got := w.mustAsk(w.Diff, "from=v1", "s", "", ""); strings.TrimSpace(got) != "[]" {
		t.Errorf("after the restore the files differ from the checkpoint: %s", got)
	}
	all := decodeAs[[]sprites.Checkpoint](t, w.mustAsk(w.ListCheckpoints, "includeAuto=true", "s", "", ""))
	if len(all) != 3 || all[0].ID != sprites.Current || all[0].SourceID != "v1" || !all[1].IsAuto || all[1].Comment != "state before the restore of v1" {
		t.Errorf("the list after the restore is %+v", all)
	}
	if named := decodeAs[[]sprites.Checkpoint](t, w.mustAsk(w.ListCheckpoints, "", "s", "", "")); len(named) != 2 || named[1].Comment != "first" {
		t.Errorf("the list without automatic ones is %+v", named)
	}
	// Pages hold as many as are wanted, and follow a checkpoint even if it was deleted meanwhile.
	for query, want := range map[string][]string{
		"includeAuto=true&max_results=2": {sprites.Current, all[1].ID}, "includeAuto=true&max_results=2&before=" + all[1].ID: {"v1"}, "before=v1": {},
		"before=v99&max_results=9": {"v1"}, "max_results=-1": {sprites.Current, "v1"}, "max_results=x": {sprites.Current, "v1"},
	} {
		got := []string{}
		for _, p := range decodeAs[[]sprites.Checkpoint](t, w.mustAsk(w.ListCheckpoints, query, "s", "", "")) {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, before := range []string{"latest", "v0", "v-1", "v1x", sprites.Current} {
		if answer, err := w.ask(w.ListCheckpoints, "before="+before, "s", "", ""); err == nil {
			t.Errorf("before=%s is answered with %s", before, answer)
		}
	}
	// The state before the restore is there as well.
	w.mustAsk(w.Restore, "", "s", all[1].ID, "")
	if kept, added := w.read("s", "kept"), w.read("s", "added"); kept != "three" || added != "y" {
		t.Errorf("the state before the restore is %q, %q", kept, added)
	}
}

// The history of a checkpoint lists those that it descends from, and not the others.
func TestHistoryFollowsSources(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	for _, comment := range []string{"one", `two\nlines`} {
		w.mustAsk(w.CreateCheckpoint, "", "s", "", `{"comment":"`+comment+`"}`)
	}
	w.mustAsk(w.Restore, "", "s", "v1", "")
	points, err := w.Store.Checkpoints("sprite-s")
	if err != nil {
		t.Fatal(err)
	}
	w.mustAsk(w.CreateCheckpoint, "", "s", "", `{"comment":"after the restore"}`)
	last := "v" + string(rune('0'+len(points)+1))
	for id, want := range map[string][]string{"v2": {"v2\ttwo lines", "v1\tone"}, last: {last + "\tafter the restore", "v1\tone"}} {
		var got []string
		for line := range strings.Lines(w.mustAsk(w.ListCheckpoints, "history="+id, "s", "", "")) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			got = append(got, fields[0]+"\t"+fields[2])
		}
		if !slices.Equal(got, want) {
			t.Errorf("history of %s = %q, want %q", id, got, want)
		}
	}
	if _, err := w.ask(w.ListCheckpoints, "history=v99", "s", "", ""); !errors.Is(err, records.ErrNoCheckpoint) {
		t.Errorf("the history of a checkpoint that does not exist ends with %v", err)
	}
}

// A fork has the files of its checkpoint, and neither checkpoints nor labels of the other sprite.
func TestForkHasFilesOnly(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	w.write("s", "f", "then")
	w.mustAsk(w.CreateCheckpoint, "", "s", "", `{}`)
	w.write("s", "f", "now")
	for id, want := range map[string]string{"v1": "then", sprites.Current: "now"} {
		name := "fork-of-" + strings.ToLower(id)
		w.mustAsk(w.ForkSprite, "", "s", id, `{"name":"`+name+`"}`)
		rec, err := w.Store.Sprite(name)
		if err != nil {
			t.Fatal(err)
		}
		points, err := w.Store.Checkpoints(rec.ID)
		if got := w.read(name, "f"); got != want || len(rec.Labels) > 0 || len(points) > 0 || err != nil {
			t.Errorf("the fork of %s: %q, want %q; labels %q, checkpoints %v, %v", id, got, want, rec.Labels, points, err)
		}
		w.write(name, "f", "of the fork")
	}
	if got := w.read("s", "f"); got != "now" {
		t.Errorf("a fork changed the sprite: %q", got)
	}
}

// A checkpoint whose files changed on the disk is reported, and neither restored nor forked.
func TestDamagedCheckpointIsNotUsed(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	w.write("s", "f", "content")
	w.mustAsk(w.CreateCheckpoint, "", "s", "", `{"durable":true}`)
	if v := decodeAs[sprites.Verified](t, w.mustAsk(w.VerifyCheckpoint, "", "s", "v1", "")); !v.OK || len(v.Digests) == 0 {
		t.Fatalf("an intact checkpoint: %+v", v)
	}
	p, err := w.Store.Checkpoint("sprite-s", "v1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.Layers.TreeDir(p.Tree), "f")
	if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte("altered"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if v := decodeAs[sprites.Verified](t, w.mustAsk(w.VerifyCheckpoint, "", "s", "v1", "")); v.OK || v.Damage == "" {
		t.Errorf("an altered checkpoint: %+v", v)
	}
	_, restored := w.ask(w.Restore, "", "s", "v1", "")
	_, forked := w.ask(w.ForkSprite, "", "s", "v1", `{"name":"copy"}`)
	for what, err := range map[string]error{"restore": restored, "fork": forked} {
		if err == nil || wire.Classify(err).Code != "checkpoint_lost" {
			t.Errorf("%s of an altered checkpoint ends with %v", what, err)
		}
	}
	if got := w.read("s", "f"); got != "content" {
		t.Errorf("the refused restore changed the sprite: %q", got)
	}
}

func TestRefusals(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	for name, tc := range map[string]struct {
		call   handler
		id     string
		body   string
		status int
	}{
		"diff of a sprite without checkpoints": {w.Diff, "", "", http.StatusBadRequest},
		"deletion of the present state":        {w.DeleteCheckpoint, sprites.Current, "", http.StatusConflict},
		"deletion of no checkpoint":            {w.DeleteCheckpoint, "v7", "", http.StatusNotFound},
		"restore of no checkpoint":             {w.Restore, "v7", "", http.StatusNotFound},
		"fork of no checkpoint":                {w.ForkSprite, "v7", `{"name":"t"}`, http.StatusNotFound},
		"fork with a name that is taken":       {w.ForkSprite, sprites.Current, `{"name":"s"}`, http.StatusConflict},
		"checkpoint with too long a comment":   {w.CreateCheckpoint, "", `{"comment":"` + strings.Repeat("x", maxComment+1) + `"}`, http.StatusBadRequest},
	} {
		if _, err := w.ask(tc.call, "", "s", tc.id, tc.body); err == nil || wire.Classify(err).Status != tc.status {
			t.Errorf("%s: %v, want status %d", name, err, tc.status)
		}
	}
}

// Whether the owner of the host refuses a capture for good, or only for the moment, decides the status.
func TestAnnounceCapture(t *testing.T) {
	w := newTestWorld(t)
	if err := w.announceCapture(t.Context(), "s"); err != nil {
		t.Errorf("without an owner: %v", err)
	}
	for _, tc := range []struct {
		refusal error
		status  int
		code    string
	}{
		{errors.New("keys are in the files"), http.StatusConflict, sprites.CodeKeysKept},
		{&sprites.APIError{Status: http.StatusNotFound, Code: "x"}, http.StatusConflict, sprites.CodeKeysKept},
		{&sprites.APIError{Status: http.StatusBadGateway, Code: "sandbox_died"}, http.StatusBadGateway, "sandbox_died"},
		{&sprites.LostError{Err: errors.New("reset")}, http.StatusServiceUnavailable, "unavailable"},
		{&sprites.ConnError{Err: errors.New("refused")}, http.StatusServiceUnavailable, "unavailable"},
	} {
		w.Config.BeforeCheckpoint = func(context.Context, string) error { return tc.refusal }
		err := w.announceCapture(t.Context(), "s")
		if err == nil {
			t.Errorf("%v is taken for a consent", tc.refusal)
			continue
		}
		if got := wire.Classify(err); got.Status != tc.status || got.Code != tc.code {
			t.Errorf("%v: %d %s, want %d %s", tc.refusal, got.Status, got.Code, tc.status, tc.code)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.announceCapture(ended, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the request ended: %v", err)
	}
}

// A quick failure is an error with a status of its own; one after the stream began is its last line.
func TestReportProgress(t *testing.T) {
	lines := func(took time.Duration, failure error) (types []string, last sprites.Progress, err error) {
		synctest.Test(t, func(t *testing.T) {
			hs := &API{Core: &core.Core{Config: core.Config{Log: zerolog.Nop()}, Now: time.Now}}
			answer := httptest.NewRecorder()
			err = hs.reportProgress(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), "Begin",
				func(context.Context) ([]sprites.Progress, error) {
					time.Sleep(took)
					return []sprites.Progress{{Type: "complete", Data: "Done"}}, failure
				})
			for line := range strings.Lines(answer.Body.String()) {
				last = decodeAs[sprites.Progress](t, line)
				types = append(types, last.Type+" "+last.Data)
			}
		})
		return types, last, err
	}
	full := &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
	for name, tc := range map[string]struct {
		took    time.Duration
		failure error
		want    []string
	}{
		"quick":        {0, nil, []string{"info Begin", "complete Done"}},
		"slow":         {2*reportEvery + time.Second, nil, []string{"info Begin", "info Still working...", "info Still working...", "complete Done"}},
		"quick, fails": {time.Second, full, nil},
		"slow, fails":  {reportEvery + time.Second, full, []string{"info Begin", "info Still working...", "error "}},
	} {
		got, last, err := lines(tc.took, tc.failure)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the lines are %q, want %q", name, got, tc.want)
		}
		if inTime := tc.want == nil; inTime != (err != nil) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if tc.want != nil && tc.failure != nil && !strings.HasPrefix(last.Error, "disk_full: ") {
			t.Errorf("%s: the last line says %q", name, last.Error)
		}
	}
}

// Folders that no record refers to are removed at the start, and those of sprites and checkpoints are not.
func TestSweep(t *testing.T) {
	w := newTestWorld(t)
	w.create("s")
	w.write("s", "f", "now")
	w.mustAsk(w.CreateCheckpoint, "", "s", "", `{}`)
	known, err := os.ReadDir(filepath.Join(w.Config.Dir, "layers"))
	if err != nil || len(known) < 2 {
		t.Fatalf("%d layers, %v", len(known), err)
	}
	for _, left := range []string{"layers/unknown/data", "trees/unknown", "cache/unknown", "tmp/half", "trash/old", "run/ended"} {
		if err := os.MkdirAll(filepath.Join(w.Config.Dir, left), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"trees", "cache", "tmp", "trash", "run"} {
		if left, err := os.ReadDir(filepath.Join(w.Config.Dir, dir)); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
	after, err := os.ReadDir(filepath.Join(w.Config.Dir, "layers"))
	if err != nil || len(after) != len(known) || w.read("s", "f") != "now" {
		t.Errorf("%d of %d layers are left, %v", len(after), len(known), err)
	}
}
