//go:build !linux

package sandbox

import (
	"context"
	"encoding/json"
)

// stillness is more than other systems offer; boxes there have no Freeze.
type stillness struct{}

func (s *server) boxCall(_ context.Context, name string, _ json.RawMessage) (answer any, err error) {
	return nil, unknownCall(name)
}
