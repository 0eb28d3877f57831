package sandbox

import (
	"context"
	"encoding/json"
	"os"
)

// fsCall serves the calls whose names begin with "fs.": work on the sprite's files, done by init as the sprite's user, so
// that every path means what it means in the box.
func (s *server) fsCall(ctx context.Context, name string, body json.RawMessage, files []*os.File) (answer any, send []*os.File, err error) {
	return nil, nil, unknownCall(name)
}
