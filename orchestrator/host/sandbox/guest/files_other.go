//go:build !linux

package guest

import (
	"context"
	"encoding/json"
	"os"
)

// fsCall has nothing to do where no box has a view of its own.
func (s *server) fsCall(_ context.Context, name string, _ json.RawMessage, _ []*os.File) (answer any, send []*os.File, err error) {
	return nil, nil, unknownCall(name)
}
