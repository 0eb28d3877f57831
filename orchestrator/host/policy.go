package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/host/egress"
)

// policyAPI answers the calls about what sprites may reach, do and use.
type policyAPI struct {
	*core
	sprites  policyWorld
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
	if err := s.setPolicy(rules); err != nil {
		return err
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
	list, stats := s.networkLog()
	if list == nil {
		list = []egress.Denial{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"denials": list, "passed": stats})
	return nil
}

func checkPrivileges(p *privileges) error {
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
	if err := checkPrivileges(in); err != nil {
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

func newPolicyAPI(c *core, sprites policyWorld, confiner *confiner, network *networkPolicy) *policyAPI {
	return &policyAPI{core: c, sprites: sprites, confiner: confiner, network: network}
}

// policyWorld is how policies get at sprites.
type policyWorld interface {
	// enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	enter(ctx context.Context, name string, weight int64) (s *sprite, rec spriteRecord, leave func(), err error)
	// runtime returns what runs of a sprite, without waking it.
	runtime(rec spriteRecord) (*sprite, error)
}
