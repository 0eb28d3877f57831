package skill

import (
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestDecide(t *testing.T) {
	var (
		read, sprite, world = manifests.ClassRead, manifests.ClassSprite, manifests.ClassWorld
		waiting             = func(id string) *protocol.Waiting { return &protocol.Waiting{Reason: "x", CheckpointID: id} }
		x, y                = &answer{checkpoint: "v1", digest: "x"}, &answer{checkpoint: "v1", digest: "y"}
	)
	for _, tc := range []struct {
		name   string
		last   journal.Record
		class  manifests.Class
		answer *answer
		want   action
	}{
		{"never seen", journal.Record{}, world, nil, doRun},
		{"never seen, answer planted", journal.Record{}, world, x, doRun},
		{"crashed read", journal.Record{State: journal.Started}, read, nil, doRun},
		{"crashed sprite", journal.Record{State: journal.Started}, sprite, nil, doRun},
		{"crashed world", journal.Record{State: journal.Started}, world, nil, doRefuse},
		{"waits", journal.Record{State: journal.Suspending, Waiting: waiting("v1")}, sprite, nil, doWait},
		{"answered", journal.Record{State: journal.Suspending, Waiting: waiting("v1")}, world, x, doResume},
		{"answered, inside the checkpoint", journal.Record{State: journal.Suspending, Waiting: waiting("")}, sprite, x, doResume},
		{"answered, checkpoint taken outside", journal.Record{State: journal.Suspending, Waiting: waiting("pending")}, sprite, x, doResume},
		{"answer to another checkpoint", journal.Record{State: journal.Suspending, Waiting: waiting("v2")}, sprite, x, doWait},
		{"answer to an earlier pause", journal.Record{State: journal.Suspending, Waiting: waiting(""), PayloadSHA256: "x"}, sprite, x, doWait},
		{"crashed after the answer", journal.Record{State: journal.Resumed, Waiting: waiting("v1"), PayloadSHA256: "x"}, sprite, x, doResume},
		{"crashed after the answer, answer gone", journal.Record{State: journal.Resumed, Waiting: waiting("v1"), PayloadSHA256: "x"}, sprite, nil, doWait},
		{"crashed world after the answer", journal.Record{State: journal.Resumed, Waiting: waiting("v1"), PayloadSHA256: "x"}, world, x, doRefuse},
		{"done", journal.Record{State: journal.Done}, sprite, nil, doReplay},
		{"done read", journal.Record{State: journal.Done}, read, nil, doRun},
		{"done, never waited, answer planted", journal.Record{State: journal.Done}, world, x, doReplay},
		{"duplicate resume", journal.Record{State: journal.Done, Waiting: waiting("v1"), PayloadSHA256: "x"}, world, x, doReplay},
		{"another answer", journal.Record{State: journal.Done, Waiting: waiting("v1"), PayloadSHA256: "x"}, sprite, y, doResume},
		{"unknown state", journal.Record{State: "won"}, read, nil, doRefuse},
	} {
		if got := decide(tc.last, tc.class, tc.answer); got != tc.want {
			t.Errorf("%s: decide = %d, want %d", tc.name, got, tc.want)
		}
	}
}
