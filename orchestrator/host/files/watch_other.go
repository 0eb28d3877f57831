//go:build !linux

package files

import (
	"encoding/json"
	"io"
	"time"
)

func watch(t Tree, conn io.Reader, out *json.Encoder) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	return poll(t, lines(conn), out, tick.C)
}
