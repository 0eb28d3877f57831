package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/egress"
)

func policyDocument(rules []egress.Rule) ([]byte, error) {
	return json.Marshal(struct {
		Rules []egress.Rule `json:"rules"`
	}{rules})
}

// policyAPI answers the calls about what sprites may reach, do and use.
type policyAPI struct {
	*core
	sprites  access
	confiner *confiner
	network  *networkPolicy
}

func (a *policyAPI) getNetworkPolicy(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.store.sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	data, err := policyDocument(a.network.rules(rec))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, json.RawMessage(data))
	return nil
}

func (a *policyAPI) setNetworkPolicy(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.store.sprite(r.PathValue("name")); err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if err != nil {
		return badRequest("read the policy: " + err.Error())
	}
	rules, err := egress.Parse(data)
	if err != nil {
		return badRequest(err.Error())
	}
	return a.applyPolicy(w, r, &rules)
}

// resetNetworkPolicy takes the sprite's own policy away; the host's preset binds it again.
func (a *policyAPI) resetNetworkPolicy(w http.ResponseWriter, r *http.Request) error {
	return a.applyPolicy(w, r, nil)
}

// applyPolicy stores a policy, and then applies it to what runs.
func (a *policyAPI) applyPolicy(w http.ResponseWriter, r *http.Request, rules *[]egress.Rule) error {
	if rules != nil {
		if _, err := egress.Compile(*rules); err != nil {
			return badRequest(err.Error())
		}
	}
	s, _, leave, err := a.sprites.enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := a.store.updateSprite(r.PathValue("name"), func(rec *spriteRecord) {
		rec.Policy, rec.UpdatedAt = rules, a.now()
	})
	if err != nil {
		return err
	}
	policy, err := egress.Compile(a.network.rules(rec))
	if err != nil {
		return err
	}
	if s.world != nil {
		cut := s.world.gateway.SetPolicy(policy)
		a.cfg.Log.Info().Str("sprite", rec.Name).Int("cut", cut).Msg("network policy changed")
	}
	if err := os.MkdirAll(a.runDir(rec.ID), 0o755); err != nil {
		return err
	}
	if err := a.network.mirrorPolicy(rec); err != nil {
		return fmt.Errorf("the policy holds, but its mirror could not be written: %w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// networkDenials lists what the sprite tried and was denied, the last first, since the host started.
func (a *policyAPI) networkDenials(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.store.sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	s, err := a.sprites.runtime(rec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	list, stats := s.denials().List(), egress.Stats{}
	if s.world != nil {
		stats = s.world.gateway.Stats()
	}
	s.mu.Unlock()
	if list == nil {
		list = []egress.Denial{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"denials": list, "passed": stats})
	return nil
}

// privileges is the policy/privileges document. Whatever it asks for, sprites have no privileges to lose or gain: it is
// kept for clients that read it back, and what of it does not hold is said.
type privileges struct {
	Profile         string   `json:"profile"`
	Devices         []string `json:"devices,omitempty"`
	NoNewPrivileges *bool    `json:"noNewPrivileges,omitempty"`
	Unsupported     []string `json:"unsupported,omitempty"`
}

func (p *privileges) check() error {
	switch p.Profile {
	case "", "minimal", "standard", "privileged":
	default:
		return badRequest(`profile must be "", "minimal", "standard" or "privileged"`)
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

func (a *policyAPI) getPrivileges(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.store.sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	if rec.Privileges == nil {
		rec.Privileges = &privileges{}
	}
	writeJSON(w, http.StatusOK, rec.Privileges)
	return nil
}

func (a *policyAPI) setPrivileges(w http.ResponseWriter, r *http.Request) error {
	in := &privileges{}
	if err := readStrict(w, r, in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	return a.keepPolicy(w, r, in, func(rec *spriteRecord) { rec.Privileges = in })
}

func (a *policyAPI) deletePrivileges(w http.ResponseWriter, r *http.Request) error {
	return a.keepPolicy(w, r, nil, func(rec *spriteRecord) { rec.Privileges = nil })
}

// keepPolicy changes a sprite's record and answers with what is kept now, or that nothing is.
func (a *policyAPI) keepPolicy(w http.ResponseWriter, r *http.Request, kept any, change func(*spriteRecord)) error {
	_, err := a.store.updateSprite(r.PathValue("name"), func(rec *spriteRecord) {
		change(rec)
		rec.UpdatedAt = a.now()
	})
	if err != nil {
		return err
	}
	if kept == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	writeJSON(w, http.StatusOK, kept)
	return nil
}

// readStrict decodes a body that must hold one JSON object without members that v does not have.
func readStrict(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if err != nil {
		return badRequest("read the body: " + err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badRequest("read the policy: " + err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("something follows the policy")
	}
	return nil
}
