package main

import "golang.org/x/sys/unix"

// guardSession keeps other processes of the same user from the pipes and the memory of this one: data that they could write
// there would look like the word of a session. Children are ordinary processes again once they run another program. It is
// best effort: root in the sprite is not kept out, and results need their call's token all the same.
func guardSession() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
