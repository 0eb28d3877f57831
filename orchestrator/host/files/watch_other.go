//go:build !linux

package files

import (
	"encoding/json"
	"io"
	"time"
)

func watchTree(t Tree, conn io.Reader, out *json.Encoder) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	return pollTree(t, scanRequests(conn), out, tick.C)
}
