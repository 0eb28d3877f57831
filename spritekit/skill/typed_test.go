package skill_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

func TestTyped(t *testing.T) {
	type in struct {
		Path string `json:"path"`
	}
	type out struct {
		Size int `json:"size"`
	}
	wrong := errors.New("no")
	f := skill.Typed(func(_ context.Context, _ *skill.Call, in in) (*out, error) {
		if in.Path == "" {
			return &out{Size: 1}, wrong
		}
		return &out{Size: len(in.Path)}, nil
	})
	r, err := f(t.Context(), &skill.Call{Input: json.RawMessage(`{"path":"abc"}`)})
	if d, ok := r.Data.(*out); err != nil || !ok || d.Size != 3 {
		t.Errorf("Typed = %+v, %v", r, err)
	}
	if r, err = f(t.Context(), &skill.Call{}); err != wrong || r.Data != nil {
		t.Errorf("Typed of a failure = %+v, %v, want no data and the error", r, err)
	}
	if _, err = f(t.Context(), &skill.Call{Input: json.RawMessage(`{"other":1}`)}); fault.As(err) == nil || fault.As(err).Code != "bad_input" {
		t.Errorf("Typed of an unknown key = %v, want bad_input", err)
	}
}
