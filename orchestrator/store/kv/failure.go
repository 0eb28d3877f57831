package kv

import "errors"

// Failure is an error that callers can tell apart. Advice gives its meaning for commands: an exit code, a code
// and a remedy.
type Failure struct {
	text       string
	exit       int
	code, hint string
}

func (f *Failure) Error() string { return f.text }

// Advice returns the exit code of a command that ends with f, the code for machines, and a remedy.
func (f *Failure) Advice() (exit int, code, hint string) { return f.exit, f.code, f.hint }

// Errors of opening and using a store.
var (
	ErrLocked  = &Failure{"the store is in use", 6, "store_locked", ""}
	ErrNewer   = &Failure{"the store is newer than this lattice", 8, "store_newer", "update lattice, or set LATTICE_HOME to another directory"}
	ErrDamaged = &Failure{"the store is damaged", 1, "store_damaged", "lattice store check shows the damage; lattice store restore FILE restores a backup and keeps this store under another name"}
	ErrFull    = &Failure{"the disk is full", 9, "disk_full", "free some space, then: lattice resume"} // or a quota, or the largest size of a file
)

// Errors of stores in a database server.
var (
	ErrUnreachable = &Failure{"the database does not answer", 5, "store_unreachable", "check that the server runs and that LATTICE_STORE or [store] in the settings names it, then: lattice resume"}
	ErrAddress     = &Failure{"the address of the store is not valid", 2, "store_address", "write it as postgres://USER@HOST/DATABASE; the password is in PGPASSWORD or ~/.pgpass"}
	ErrRefused     = &Failure{"the database refuses this user", 4, "store_refused", "check the user of the URL and its password, in PGPASSWORD or ~/.pgpass, and what the user may do: lattice needs to create tables in its schema"}
	ErrMissing     = &Failure{"the database or its schema does not exist", 3, "store_missing", "make it with createdb, or CREATE SCHEMA for a search_path in the URL"}
	ErrNotEmpty    = &Failure{"the database has runs", 7, "store_not_empty", "use an empty database, or another schema: add ?search_path=NAME to the URL"}
)

// Answers of a store that are no damage.
var (
	ErrReadOnly = &Failure{"the store is open for reading only", 4, "home_read_only", "set LATTICE_HOME to a directory that you may write; runs can be read and backed up all the same"}
	ErrClosed   = errors.New("the store is closed")
)
