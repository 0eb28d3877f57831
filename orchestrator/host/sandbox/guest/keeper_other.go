//go:build !linux

package guest

import (
	"context"
	"errors"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// keeper is not used on this system.
type keeper struct{ socket *channel.Socket }

func keepRoot(*channel.Socket) error { return errors.ErrUnsupported }
func meetKeeper() (*keeper, error)   { return nil, errors.ErrUnsupported }
func (*keeper) read()                {}
func (*keeper) callKeeper(context.Context, channel.Call, []*os.File) (any, []*os.File, error) {
	return nil, nil, errors.ErrUnsupported
}
