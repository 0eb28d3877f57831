package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/network"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/spritekit/exact"
)

// Policies answers the calls about the policies of network, privileges and resources.
type Policies struct {
	*core.Core
	sprites  policyWorld
	confiner *confine.Confiner
	network  *network.Policy
}

func (a *Policies) GetNetworkPolicy(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	data, err := network.Document(a.network.Rules(rec))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, json.RawMessage(data))
	return nil
}

func (a *Policies) SetNetworkPolicy(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.Store.Sprite(r.PathValue("name")); err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	if err != nil {
		return wire.BadRequest("read the policy: " + err.Error())
	}
	rules, err := egress.Parse(data)
	if err != nil {
		return wire.BadRequest(err.Error())
	}
	return a.applyPolicy(w, r, &rules)
}

// ResetNetworkPolicy takes the sprite's own policy away; the host's preset binds it again.
func (a *Policies) ResetNetworkPolicy(w http.ResponseWriter, r *http.Request) error {
	return a.applyPolicy(w, r, nil)
}

// applyPolicy stores a policy, and then applies it to the running sandbox.
func (a *Policies) applyPolicy(w http.ResponseWriter, r *http.Request, rules *[]egress.Rule) error {
	if rules != nil {
		if _, err := egress.Compile(*rules); err != nil {
			return wire.BadRequest(err.Error())
		}
	}
	s, _, leave, err := a.sprites.Enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.SetPolicy(rules); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// NetworkDenials lists the denied accesses of the sprite since the host started, the last first.
func (a *Policies) NetworkDenials(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	s, err := a.sprites.Runtime(rec)
	if err != nil {
		return err
	}
	list, stats := s.NetworkLog()
	if list == nil {
		list = []egress.Denial{}
	}
	wire.WriteJSON(w, http.StatusOK, map[string]any{"denials": list, "passed": stats})
	return nil
}

func checkPrivileges(p *records.Privileges) error {
	switch p.Profile {
	case "", "minimal", "standard", "privileged":
	default:
		return wire.BadRequest(`profile must be "", "minimal", "standard" or "privileged"`)
	}
	p.Unsupported = nil
	if p.Profile == "privileged" || p.Profile == "standard" {
		p.Unsupported = append(p.Unsupported, "profile: sprites of this host always run with the minimal one")
	}
	if len(p.Devices) > 0 {
		p.Unsupported = append(p.Unsupported, "devices: sprites of this host have none of its devices")
	}
	if p.NoNewPrivileges != nil && !*p.NoNewPrivileges {
		p.Unsupported = append(p.Unsupported, "noNewPrivileges: it is always on here")
	}
	return nil
}

func (a *Policies) GetPrivileges(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	if rec.Privileges == nil {
		rec.Privileges = &records.Privileges{}
	}
	wire.WriteJSON(w, http.StatusOK, rec.Privileges)
	return nil
}

func (a *Policies) SetPrivileges(w http.ResponseWriter, r *http.Request) error {
	in := &records.Privileges{}
	if err := readStrict(w, r, in); err != nil {
		return err
	}
	if err := checkPrivileges(in); err != nil {
		return err
	}
	return a.keepPolicy(w, r, in, func(rec *records.Sprite) { rec.Privileges = in })
}

func (a *Policies) DeletePrivileges(w http.ResponseWriter, r *http.Request) error {
	return a.keepPolicy(w, r, nil, func(rec *records.Sprite) { rec.Privileges = nil })
}

// keepPolicy changes a sprite's record and answers with the stored policy, or with no content.
func (a *Policies) keepPolicy(w http.ResponseWriter, r *http.Request, kept any, change func(*records.Sprite)) error {
	_, err := a.Store.UpdateSprite(r.PathValue("name"), func(rec *records.Sprite) {
		change(rec)
		rec.UpdatedAt = a.Now()
	})
	if err != nil {
		return err
	}
	if kept == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	wire.WriteJSON(w, http.StatusOK, kept)
	return nil
}

// readStrict decodes a body that must hold one JSON object without members that v does not have under exactly their names, and without
// a member that is given twice.
func readStrict(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	if err != nil {
		return wire.BadRequest("read the body: " + err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return wire.BadRequest("read the policy: " + err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return wire.BadRequest("something follows the policy")
	}
	if twice := exact.Duplicates(data); len(twice) > 0 {
		return wire.BadRequest("read the policy: " + twice[0] + " is given twice")
	}
	if at := exact.Unknown(data, reflect.TypeOf(v)); at != "" {
		return wire.BadRequest("read the policy: unknown field " + at)
	}
	return nil
}

func NewPolicies(c *core.Core, sprites policyWorld, confiner *confine.Confiner, network *network.Policy) *Policies {
	return &Policies{Core: c, sprites: sprites, confiner: confiner, network: network}
}

// policyWorld is how policies get at sprites.
type policyWorld interface {
	// Enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	Enter(ctx context.Context, name string, weight int64) (s *fleet.Sprite, rec records.Sprite, leave func(), err error)
	// Runtime returns the running state of a sprite, without waking it.
	Runtime(rec records.Sprite) (*fleet.Sprite, error)
}
