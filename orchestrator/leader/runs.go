package leader

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// record is what the store keeps of a run, with its options read.
type record struct {
	store.RunRecord
	kept options
}

// options is what a record keeps for the leader. Begin is the run's first fact, for the case that a crash came between
// recording the run and appending it.
type options struct {
	api.Options
	Begin lattice.RunStarted `json:"begin"`
	// Pinned are the manifests of skills that are not ours, as they were when the run started.
	Pinned []json.RawMessage `json:"pinned,omitempty"`
	// Of a run that began with an answer: the run that had asked, and all answers so far.
	ResumedFrom string            `json:"resumed_from,omitempty"`
	Answers     map[string]string `json:"answers,omitempty"`
	// Fork is the first fact, in the place of Begin, of a run that goes on from another one.
	Fork *lattice.RunForked `json:"fork,omitempty"`
}

func (l *Leader) record(id string) (record, error) {
	r, err := l.store.Run(id)
	if err != nil {
		return record{}, fmt.Errorf("load run %s: %w", id, err)
	}
	kept, err := readOptions(r)
	return record{RunRecord: r, kept: kept}, err
}

// brief is record without the run's program, which is the largest part of it.
func (l *Leader) brief(id string) (record, error) {
	r, err := l.store.Record(id)
	if err != nil {
		return record{}, fmt.Errorf("load run %s: %w", id, err)
	}
	kept, err := readOptions(r)
	return record{RunRecord: r, kept: kept}, err
}

func readOptions(r store.RunRecord) (o options, err error) {
	if err := json.Unmarshal(r.Options, &o); err != nil {
		return o, fmt.Errorf("load run %s: read its options: %w", r.ID, err)
	}
	return o, nil
}

// resolve finds the run that a user means: an id, a unique prefix of one, or "" for the last run.
func (l *Leader) resolve(id string) (string, error) {
	find := func() (store.RunRecord, error) { return l.store.Run(id) }
	if id == "" {
		find = l.store.Last
	}
	found, err := find()
	switch {
	case errors.Is(err, store.ErrNotFound) && id == "":
		return "", fault.NotFound("no_runs", "there are no runs yet").WithHint("lattice run FLOW")
	case errors.Is(err, store.ErrNotFound):
		return "", fault.NotFound("run_not_found", "there is no run %s", id).WithHint("lattice runs")
	case errors.Is(err, store.ErrAmbiguous):
		return "", fault.BadInput("run_ambiguous", "%v", err).WithHint("write more of the id; lattice runs lists them")
	}
	return found.ID, err
}

// Start checks a flow, records the run and has it driven. Nothing is recorded when the flow is refused.
func (l *Leader) Start(ctx context.Context, r api.RunRequest) (api.RunView, error) {
	if started, err := l.startedBefore(r.Key); err != nil || started != "" {
		if err != nil {
			return api.RunView{}, err
		}
		return l.Drive(ctx, started, api.DriveRequest{Values: r.Values, Detach: r.Detach})
	}
	catalog, err := l.catalog(ctx, r.Options)
	if err != nil {
		return api.RunView{}, err
	}
	flow, findings := compile.Parse(r.Flow, catalog.lookup)
	if catalog.err != nil {
		return api.RunView{}, catalog.err
	}
	if flow == nil {
		return api.RunView{}, refuseFlow("flow_invalid", protocol.ExitBadInput, findings)
	}
	program := flow.Program
	r.Flow = flow.ExecIR // what is recorded is what runs
	o := r.Options
	if len(o.Grants) == 0 {
		o.Grants = ir.DefaultGrants()
	}
	if len(r.Input) == 0 || string(r.Input) == "null" {
		r.Input = json.RawMessage("{}")
	}
	decoded, err := ir.Decode(r.Input)
	input, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return api.RunView{}, fault.BadInput("bad_input", "the input of a flow is one JSON object")
	}
	if twice := ir.Duplicates(r.Input); len(twice) > 0 {
		return api.RunView{}, fault.BadInput("key_duplicate", "the input has members that stand twice in their object: %s", strings.Join(twice, ", ")).WithHint("keep one of the two")
	}
	if err := admit(flow, input, o); err != nil {
		return api.RunView{}, err
	}
	if o.Models, err = l.admitModels(program, o); err != nil {
		return api.RunView{}, err
	}
	if err := l.admitCopies(ctx, flow, o.Sprite); err != nil {
		return api.RunView{}, err
	}
	if o.FlowName == "" {
		o.FlowName = program.Doc.ID
	}
	if err := checkRepo(o.Repo); err != nil {
		return api.RunView{}, err
	}
	if err := l.findNamed(ctx, program, o); err != nil {
		return api.RunView{}, err
	}
	o.Skills = catalog.kept
	return l.begin(ctx, program, r, options{Options: o, Pinned: catalog.pins()})
}

// begin records a run that was found fit to be one, and has it driven.
func (l *Leader) begin(ctx context.Context, program *ir.Program, r api.RunRequest, o options) (api.RunView, error) {
	id, secret, err := newRun(r.Key)
	if err != nil {
		return api.RunView{}, err
	}
	if o.WorkItem == "" {
		o.WorkItem = id
	}
	callsSkills := program.CallsSkills()
	if callsSkills {
		if err := l.skillsRefused(o.Options); err != nil {
			return api.RunView{}, err
		}
	}
	if callsSkills && o.Sprite == "" {
		o.Sprite, o.OwnSprite = ownSprite(id), true
		l.complete(&o.Options)
	}
	if o.Image != "" && l.host == nil {
		return api.RunView{}, fault.Unsupported("images_are_local", "images are the embedded host's; remote sprites start from their service's").WithHint("leave the image out")
	}
	if o.OwnSprite && l.host != nil {
		if err := l.host.CheckIsolationFor(sandbox.Level(o.MinIsolation)); err != nil {
			return api.RunView{}, fault.Unsafe("isolation_unavailable", "%v", err).WithHint("lattice doctor says what helps, or ask for less")
		}
	}
	if err := l.spriteFree(o.Options); err != nil {
		return api.RunView{}, err
	}
	if r.DryRun {
		return api.RunView{Flow: o.FlowName, Repo: o.Repo, Status: lattice.Pending, StartedWith: startedBy(o.Options)}, nil
	}
	l.keepValues(id, o.AgentEnv, o.Values)
	o.Values = api.Values{}
	if err := l.settle(ctx); err != nil {
		return api.RunView{}, err
	}
	notice := l.missing(ctx, o.Options)
	if err := l.create(ctx, id, secret, program, r, o); err != nil {
		return api.RunView{}, err
	}
	// From here on the run exists: a leader that is ending says so by a run that nobody drives, lest it be started twice.
	if err := l.drive(ctx, id); err != nil && !closingNow(err) {
		return api.RunView{}, err
	}
	l.detach(id, r.Detach)
	v, err := l.view(id)
	for _, skill := range program.WorldCalls(o.ApproveWorld) {
		notice = append(notice, fmt.Sprintf("%s acts outside: the run waits for approval before it calls it; --approve-world %s allows it from the start", skill, skill))
	}
	v.Notice = notice
	return v, err
}

// missing says what of its repository a run will not have, as far as it is known before the repository is read.
func (l *Leader) missing(ctx context.Context, o api.Options) (lines []string) {
	if o.Repo == "" {
		return nil
	}
	warnings, err := l.git.Missing(ctx, o.Repo, o.Ref)
	if err != nil {
		return nil // reading it for the sprite fails as well, and says why
	}
	for _, w := range warnings {
		lines = append(lines, w.Message)
	}
	return lines
}

// create records the run, with the fact that begins it.
func (l *Leader) create(ctx context.Context, id string, secret []byte, program *ir.Program, r api.RunRequest, o options) error {
	now := time.Now()
	frozen, err := json.Marshal(startContext(id, o.Options, now))
	if err != nil {
		return fmt.Errorf("encode $ctx: %w", err)
	}
	input := r.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	o.Begin = lattice.RunStarted{
		RunID: id, WorkItem: o.WorkItem, Program: program.Digest, Sprite: o.Sprite, Input: input, Ctx: frozen, Grants: o.Grants, AskWorld: true, ApproveWorld: o.ApproveWorld,
	}
	if o.Sprite != "" {
		o.Begin.Disk = l.disk()
	}
	kept, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	if err := l.store.Create(ctx, store.RunRecord{
		ID: id, WorkItem: o.WorkItem, Created: now, Program: r.Flow, Secret: secret, Options: kept, Sprite: o.Sprite,
	}); err != nil {
		return fmt.Errorf("record run: %w", err)
	}
	return nil
}

// refuseFlow names every finding at once.
func refuseFlow(code string, exit int, findings []ir.Finding) error {
	var text []string
	hint := ""
	for _, f := range findings {
		if f.Severity == ir.SeverityError {
			text = append(text, fmt.Sprintf("%s %s: %s", f.Pointer, f.Code, f.Message))
			hint = cmp.Or(hint, f.Hint)
		}
	}
	p := fault.New(exit, code, "the flow is refused:\n  %s", strings.Join(text, "\n  ")).WithHint("%s", hint)
	if details, err := json.Marshal(map[string]any{"findings": findings}); err == nil {
		p.Fault.Details = details
	}
	return p
}

// newRun draws an id, unless the asker has drawn it, and a secret. The secret never leaves the orchestrator.
func newRun(key string) (id string, secret []byte, err error) {
	draw := make([]byte, 42)
	if _, err := rand.Read(draw); err != nil {
		return "", nil, fmt.Errorf("draw run id: %w", err)
	}
	return runID(cmp.Or(key, strings.ToLower(base32.StdEncoding.EncodeToString(draw[:10])))), draw[10:], nil
}

func runID(key string) string { return "run_" + key }

var startKey = regexp.MustCompile(`^[a-z2-7]{16}$`)

// startedBefore finds the run that was started with the same key: its asker has not heard of it.
func (l *Leader) startedBefore(key string) (string, error) {
	if key == "" {
		return "", nil
	}
	if !startKey.MatchString(key) {
		return "", fault.BadInput("bad_request", "the key of a run is 16 letters and digits")
	}
	switch _, err := l.store.Run(runID(key)); {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for run %s: %w", runID(key), err)
	}
	return runID(key), nil
}

// spriteFree refuses a sprite that belongs to a run that has not ended (DESIGN 5).
func (l *Leader) spriteFree(o api.Options) error {
	if o.OwnSprite {
		return nil
	}
	return l.spriteFreeFor("", o.Sprite)
}

// spriteFreeFor refuses a sprite that belongs to another run that has not ended.
func (l *Leader) spriteFreeFor(id, sprite string) error {
	if sprite == "" {
		return nil
	}
	open, err := l.store.Open()
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.Sprite != sprite || r.ID == id {
			continue
		}
		v, err := l.view(r.ID)
		if err != nil {
			return err
		}
		if !v.Status.Ended() {
			return fault.Busy("sprite_busy", "sprite %s belongs to %s, which is %s", sprite, r.ID, v.Status).WithHint("lattice cancel %s", r.ID)
		}
	}
	return nil
}

// Run shows one run.
func (l *Leader) Run(ctx context.Context, id string) (api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	v, err := l.view(id)
	if err != nil {
		return v, err
	}
	v.Copies = l.copiesOf(ctx, v)
	v.StartedWith, err = l.startedWith(id, v.Epoch)
	return v, err
}

// view puts together what there is to know about a run.
func (l *Leader) view(id string) (api.RunView, error) {
	rec, err := l.brief(id)
	if err != nil {
		return api.RunView{}, err
	}
	at, begun, err := l.standing(id)
	if err != nil {
		return api.RunView{}, err
	}
	v := api.RunView{
		RunID: id, Flow: rec.kept.FlowName, WorkItem: rec.WorkItem, Status: lattice.Pending, Sprite: rec.Sprite,
		Repo: rec.kept.Repo, CreatedAt: rec.Created, UpdatedAt: rec.Created, AgentEnv: rec.kept.AgentEnv,
		ResumedFrom: rec.kept.ResumedFrom,
	}
	if f := rec.kept.Fork; f != nil {
		v.ForkedFrom = fmt.Sprintf("%s at %s#%d", f.From, f.Moment.Node, f.Moment.Visit)
	}
	if begun {
		v.UpdatedAt, v.LastSeq = at.At, at.Seq
		if err := describe(&v, at.State); err != nil {
			return api.RunView{}, err
		}
	}
	if v.ContinuedIn != "" {
		if _, err := l.store.Record(v.ContinuedIn); errors.Is(err, store.ErrNotFound) {
			v.Note = v.ContinuedIn + " has not begun yet; lattice resume begins it"
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.MissingEnv = l.missingEnv(id, rec.kept.AgentEnv)
	if r := l.runs[id]; r != nil {
		v.Driving = r.done != nil || r.yielded
		if r.stopped != nil && !errors.Is(r.stopped, context.Canceled) {
			v.Note = r.stopped.Error()
			if hint := sprites.Remedy(r.stopped); hint != "" && !sprites.Uncertain(r.stopped) {
				v.Note += "; " + hint
			}
			v.Problem = stopProblem(id, r.stopped)
		}
	}
	if !v.Driving && v.Note == "" && (v.Status == lattice.Running || v.Status == lattice.Pending) {
		v.Note = "nobody drives it; lattice resume goes on"
	}
	return v, nil
}

// describe fills a view from the run's state.
func describe(v *api.RunView, s engine.State) error {
	v.Status, v.Epoch, v.Steps, v.Node, v.Waits = s.Status, s.Epoch, s.Steps, s.Node, s.Waits
	if len(s.Pending) > 0 {
		v.Doing = string(s.Pending[0].Kind)
	}
	if s.Next != nil {
		v.ContinuedIn = s.Next.RunID
	}
	v.Models = modelUse(s)
	if s.Output != nil {
		out, err := ir.Marshal(s.Output)
		if err != nil {
			return fmt.Errorf("encode outputs: %w", err)
		}
		v.Outputs = out
	}
	if f := s.Failure; f != nil {
		v.Error = &api.RunError{Kind: f.Kind, Message: f.Message, Node: f.Node, Attempt: f.Attempt, Data: f.Data}
	}
	return nil
}

// Entries yields a run's facts and events after a position.
func (l *Leader) Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	id, err := l.resolve(id)
	if err != nil {
		return err
	}
	const page = 512
	for {
		entries, err := l.store.Entries(id, after, page)
		if err != nil {
			return fmt.Errorf("read entries of run %s: %w", id, err)
		}
		for _, e := range entries {
			if err := yield(e); err != nil {
				return err
			}
			after = e.Seq
		}
		if len(entries) < page {
			return ctx.Err()
		}
	}
}

// near is how much of what is said next to a fact an outline tells.
const near = 32

// Outline yields a run's facts after a position and the events next to them, however many there are between.
func (l *Leader) Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	id, err := l.resolve(id)
	if err != nil {
		return err
	}
	entries, err := l.store.Outline(id, after, near)
	if err != nil {
		return fmt.Errorf("read entries of run %s: %w", id, err)
	}
	for _, e := range entries {
		if err := yield(e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// maxLog bounds a run's log file.
const maxLog = 64 << 20

// output opens the run's log, to which its skills' stderr and stray stdout go.
func (l *Leader) output(id string) io.Writer {
	path := filepath.Join(l.home.Run(id), "output.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.cfg.Log.Warn().Err(err).Msg("make run directory")
		return io.Discard
	}
	return &cappedLog{path: path, wrote: func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.notify(id)
	}}
}

// Log opens what the run's skills printed beside events, from a byte offset on.
func (l *Leader) Log(_ context.Context, id string, offset int64) (io.ReadCloser, error) {
	id, err := l.resolve(id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(l.home.Run(id), "output.log"))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run log: %w", err)
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("read run log: %w", err), f.Close())
	}
	return f, nil
}
