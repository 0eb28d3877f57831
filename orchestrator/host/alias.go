package host

import (
	"time"

	"github.com/spritekit/lattice/orchestrator/host/catalog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/share"
)

// Names of the parts that belong to the API of a host.
type (
	// Config says how a host works.
	Config = core.Config
	// Network says what sprites reach.
	Network = core.Network
	// Limits are quotas of all sprites.
	Limits = core.Limits
	// Audit is the result of an audit of host.db.
	Audit = records.Audit
	// Repair tells how a damaged host.db was repaired.
	Repair = records.Repair
)

// Errors of hosts.
var (
	ErrDamaged  = records.ErrDamaged
	ErrServed   = records.ErrServed
	ErrNoImage  = catalog.ErrNoImage
	ErrNoShared = share.ErrNoShared
	ErrPlain    = share.ErrPlain
	ErrNoGo     = share.ErrNoGo
	ErrWarming  = share.ErrWarming
)

// RepairDir puts a new host.db in the place of a damaged one; see [records.RepairDir].
func RepairDir(dir string, now time.Time) (Repair, error) { return records.RepairDir(dir, now) }

// AuditDir is [Host.Audit] for a directory that no host serves; see [records.AuditDir].
func AuditDir(dir string) (Audit, error) { return records.AuditDir(dir) }

// SharedGo names the shared Go build cache in a directory; see [share.SharedGo].
func SharedGo(dir string) (folder, toolchain string) { return share.SharedGo(dir) }
