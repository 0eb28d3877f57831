package sandbox

import (
	"context"
	"encoding/json"
	"os"
)

// netCall serves the calls whose names begin with "net.": work on the box's network from inside it.
func (s *server) netCall(ctx context.Context, name string, body json.RawMessage, files []*os.File) (answer any, send []*os.File, err error) {
	return nil, nil, unknownCall(name)
}
