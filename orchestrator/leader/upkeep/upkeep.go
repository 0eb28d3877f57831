// Package upkeep makes sprites as a fleet file declares them (api.Fleet). Start with [Reconciler]. Package fleet decides which
// changes are needed; this package observes sprites and makes the changes, over the Sprites API, so that embedded and remote
// hosts are alike.
//
// Each change is recorded in the audit log before it is made, and again with its outcome. The state is in the sprites alone:
// after a crash, the next comparison finds the changes that are left.
package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Facts is the audit log.
type Facts interface {
	Record(ctx context.Context, kind audit.Kind, subject, key string, body any) error
	// LastEntry returns the last entry of a subject.
	LastEntry(subject string) (e audit.Entry, ok bool, err error)
}

// Reconciler compares sprites with fleet files and changes them.
type Reconciler struct {
	Client *sprites.Client
	Facts  Facts
	// Declared reads the server's fleet file, and Every is the time between two comparisons with it; 0 is never.
	Declared func() (fleet.Document, error)
	Every    time.Duration
	Logger   zerolog.Logger
}

// record is the body of an audit entry about a sprite of a fleet.
type record struct {
	fleet.Change
	Phase string    `json:"phase"` // begun, done or failed
	Error string    `json:"error,omitempty"`
	ID    string    `json:"id,omitempty"` // of the sprite
	Seen  time.Time `json:"seen,omitzero"`
}

func subjectOf(fleet, sprite string) string { return "fleet:" + fleet + "/" + sprite }

// InspectFleet returns the sprites of a fleet and the changes that are needed.
func (r *Reconciler) InspectFleet(ctx context.Context, d fleet.Document) (api.FleetView, error) {
	observed, err := r.observeSprites(ctx, d)
	if err != nil {
		return api.FleetView{}, err
	}
	return r.describeSprites(d, observed)
}

// observeSprites returns all sprites, the declared ones with their rules and services as far as these are declared.
func (r *Reconciler) observeSprites(ctx context.Context, d fleet.Document) ([]fleet.Observed, error) {
	if found := d.Check(); len(found) > 0 {
		return nil, fault.BadInput("fleet_invalid", "the fleet is refused: %s", found[0].Text()).WithHint("%s", found[0].Hint)
	}
	all, err := r.Client.List(ctx, "")
	if err != nil {
		return nil, problem.SpriteProblem(err)
	}
	var observed []fleet.Observed
	for _, s := range all {
		o := fleet.Observed{Sprite: s, Run: api.OwnerOf(s.Labels)}
		want, declared := d.Sprites[s.Name]
		if declared && want.Network != nil {
			p, err := r.Client.Policies().Network(ctx, s.Name)
			if err != nil {
				return nil, problem.SpriteProblem(err)
			}
			o.Rules = p.Rules
		}
		if declared && want.Services != nil {
			if o.Services, err = r.Client.Services().List(ctx, s.Name); err != nil {
				return nil, problem.SpriteProblem(err)
			}
		}
		if declared {
			if o.Wanted, err = r.findImage(ctx, want.Image); err != nil {
				return nil, problem.SpriteProblem(err)
			}
		}
		observed = append(observed, o)
	}
	return observed, nil
}

// findImage returns the digest of an image, or NoImage; "" if the host does not know it, for example because it has no images. A path means
// the image that was last imported from it, which is done when a sprite is made.
func (r *Reconciler) findImage(ctx context.Context, ref string) (string, error) {
	if ref == "" || ref == sprites.NoImage {
		return ref, nil
	}
	image, err := r.Client.Images().Get(ctx, ref)
	if errors.Is(err, sprites.ErrNotFound) {
		return "", nil
	}
	return image.Digest, err
}

// describeSprites describes the observed sprites, those that are missing, and the changes.
func (r *Reconciler) describeSprites(d fleet.Document, observed []fleet.Observed) (api.FleetView, error) {
	changes, now := fleet.Compare(d, observed), time.Now().UTC()
	v := api.FleetView{Name: d.Name, Digest: fleet.Digest(changes), Sprites: []api.FleetSprite{}, Changes: []api.FleetChange{}}
	for _, c := range changes {
		v.Changes = append(v.Changes, api.FleetChange{Change: c})
	}
	exists := map[string]bool{}
	for _, o := range observed {
		exists[o.Name] = true
		s := api.FleetSprite{ID: o.ID, Name: o.Name, Status: o.Status, Labels: o.Labels, CreatedAt: &o.CreatedAt, LastSeenAt: &now, Fleet: fleet.Of(o.Labels)}
		want, declared := d.Sprites[o.Name]
		if declared {
			s.Desired = &want
		}
		if declared || o.Run == "" {
			v.Sprites = append(v.Sprites, s)
		}
	}
	for name, want := range d.Sprites {
		if exists[name] {
			continue
		}
		s := api.FleetSprite{Name: name, Status: "missing", Desired: &want}
		last, ok, err := r.findRecord(subjectOf(d.Name, name))
		if err != nil {
			return v, err
		}
		if ok && !last.Seen.IsZero() {
			s.ID, s.LastSeenAt = last.ID, &last.Seen
		}
		v.Sprites = append(v.Sprites, s)
	}
	slices.SortFunc(v.Sprites, func(a, b api.FleetSprite) int { return strings.Compare(a.Name, b.Name) })
	return v, nil
}

func (r *Reconciler) findRecord(subject string) (record, bool, error) {
	var last record
	e, ok, err := r.Facts.LastEntry(subject)
	if err != nil || !ok {
		return last, false, err
	}
	if err := json.Unmarshal(e.Body, &last); err != nil {
		return last, false, fmt.Errorf("read audit entry %d: %w", e.Seq, err)
	}
	return last, true, nil
}

// ApplyFleet makes the changes that are needed, and returns them with their outcomes and the sprites as they are then.
func (r *Reconciler) ApplyFleet(ctx context.Context, in api.FleetRequest) (api.FleetView, error) {
	observed, err := r.observeSprites(ctx, in.Document)
	if err != nil {
		return api.FleetView{}, err
	}
	before, err := r.describeSprites(in.Document, observed)
	if err != nil {
		return api.FleetView{}, err
	}
	if in.Digest != "" && in.Digest != before.Digest {
		return api.FleetView{}, fault.Busy("fleet_changed", "the sprites have changed since the changes were shown").WithHint("lattice fleet plan shows the changes that are needed now")
	}
	a := application{Reconciler: r, document: in.Document, sprites: map[string]sprites.Sprite{}}
	for _, o := range observed {
		a.sprites[o.Name] = o.Sprite
	}
	for i := range before.Changes {
		if c := &before.Changes[i]; c.Acts() && c.Removes() && !in.Remove {
			c.Outcome = "kept"
		} else if c.Acts() {
			if err := a.makeChange(ctx, c); err != nil {
				return before, err
			}
		}
	}
	if observed, err = r.observeSprites(ctx, in.Document); err != nil {
		return before, err
	}
	after, err := r.describeSprites(in.Document, observed)
	after.Changes = before.Changes
	return after, err
}

// application makes the changes of one document. It holds the sprites as they are known.
type application struct {
	*Reconciler
	document fleet.Document
	sprites  map[string]sprites.Sprite
}

// makeChange makes a change between two entries of the audit log, and sets its outcome.
func (a *application) makeChange(ctx context.Context, c *api.FleetChange) error {
	entry := record{Change: c.Change, Phase: "begun"}
	if err := a.appendRecord(ctx, entry); err != nil {
		return err
	}
	err := problem.SpriteProblem(a.performChange(ctx, c.Change))
	c.Outcome = "done"
	if err != nil {
		c.Outcome, c.Error = "failed", err.Error()
		if p := fault.As(err); p != nil {
			c.Error = p.Message
		}
	}
	entry.Phase, entry.Error = c.Outcome, c.Error
	return a.appendRecord(ctx, entry)
}

func (a *application) appendRecord(ctx context.Context, e record) error {
	if s, ok := a.sprites[e.Sprite]; ok {
		e.ID, e.Seen = s.ID, time.Now().UTC()
	}
	return a.Facts.Record(ctx, audit.Fleet, subjectOf(a.document.Name, e.Sprite), "", e)
}

// performChange makes one change. Each can be repeated after a crash: the next comparison names only those that are needed.
func (a *application) performChange(ctx context.Context, c fleet.Change) error {
	want, have := a.document.Sprites[c.Sprite], a.sprites[c.Sprite]
	services, quiet := a.Client.Services(), sprites.ServiceCall{}
	switch c.Step {
	case fleet.Create:
		in := sprites.Create{Name: c.Sprite, Labels: want.WithLabels(a.document.Name, nil), Image: want.Image}
		if want.URL != "" {
			in.URLSettings = &sprites.URLSettings{Auth: want.URL}
		}
		if want.RAM+want.CPUs+want.Pids > 0 {
			in.Config = &sprites.Config{RAMMB: want.RAM, CPUs: want.CPUs, Pids: want.Pids}
		}
		s, err := a.Client.Create(ctx, in)
		if err == nil {
			a.sprites[c.Sprite] = s
		}
		return err
	case fleet.SetLabels:
		labels := want.WithLabels(a.document.Name, have.Labels)
		_, err := a.Client.Update(ctx, c.Sprite, sprites.Update{Labels: &labels})
		return err
	case fleet.SetURL:
		_, err := a.Client.Update(ctx, c.Sprite, sprites.Update{URLSettings: &sprites.URLSettings{Auth: want.URL}})
		return err
	case fleet.SetPolicy:
		return a.Client.Policies().SetNetwork(ctx, c.Sprite, sprites.NetworkPolicy{Rules: want.Network.Rules()})
	case fleet.RemoveService:
		return services.Delete(ctx, c.Sprite, c.Service)
	case fleet.PutService:
		return services.Put(ctx, c.Sprite, want.Services[c.Service].Definition(c.Service), quiet)
	case fleet.StartService:
		return services.Start(ctx, c.Sprite, c.Service, quiet)
	case fleet.Wake:
		_, err := a.Client.Check(ctx, c.Sprite)
		return err
	case fleet.Remove:
		err := a.Client.Delete(ctx, c.Sprite)
		if errors.Is(err, sprites.ErrNotFound) {
			return nil
		}
		return err
	}
	return fmt.Errorf("%s is not a change of a sprite", c.Step)
}

// Follow compares the sprites with the server's fleet file at intervals, until ctx ends. Changes that remove something are left
// to a person.
func (r *Reconciler) Follow(ctx context.Context) {
	for r.Every > 0 && ctx.Err() == nil {
		r.applyDeclared(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(r.Every):
		}
	}
}

func (r *Reconciler) applyDeclared(ctx context.Context) {
	d, err := r.Declared()
	var v api.FleetView
	if err == nil {
		v, err = r.ApplyFleet(ctx, api.FleetRequest{Document: d})
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.Error().Err(err).Msg("apply the fleet file")
	}
	for _, c := range v.Changes {
		line := r.Logger.Info()
		switch {
		case c.Outcome == "failed":
			line = r.Logger.Error().Str("error", c.Error)
		case c.Outcome == "kept":
			line = r.Logger.Warn().Str("next", "lattice fleet apply")
		case !c.Acts():
			continue
		}
		line.Str("fleet", d.Name).Str("sprite", c.Sprite).Str("step", string(c.Step)).Str("service", c.Service).Str("outcome", c.Outcome).Msg("fleet")
	}
}
