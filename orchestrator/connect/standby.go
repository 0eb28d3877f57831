package connect

import (
	"context"
	"errors"
	"time"

	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/standby"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// term is how long a node leads after the last renewal of its lease. At half of it the node knows that it has lost the lead, and ends its work.
const term = 10 * time.Second

// ErrLost is the reason why a node ended its lead: it could not renew its lease.
var ErrLost = errors.New("the lease of this node could not be renewed, so another node may lead")

// CheckStandby refuses to stand by for a store that is a file.
func CheckStandby(env *setup.Env) error {
	if !store.IsDatabase(env.StoreAddress()) {
		return fault.BadInput("standby_alone", "--standby needs a database that several nodes share, and the store is a file").WithHint("export LATTICE_STORE=postgres://USER@HOST/DATABASE; see the chapter about PostgreSQL of docs/guide.md")
	}
	return nil
}

// StandBy waits until this process may lead the database. Until then it forwards requests to the leader, at an address that stays the same.
func StandBy(ctx context.Context, env *setup.Env, o *Options) error {
	web, err := listenWeb(*o)
	if err != nil {
		return err
	}
	o.HTTP = web.listener.Addr().String()
	node := &standby.Node{Store: env.StoreAddress(), Log: env.Log}
	web.server.Handler = node
	ended := make(chan error, 1)
	go func() { ended <- web.run() }()
	err = node.Await(ctx)
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(err, web.shutDown(late), <-ended)
}

// endInTime ends this process if its work has not ended before another one may lead.
func (s *leadership) endInTime(env *setup.Env) *time.Timer {
	return time.AfterFunc(term/2-term/5, func() {
		env.Log.Error().Msg("ends at once: another node leads in a moment, and not all work has ended")
		env.Exit(1)
	})
}
