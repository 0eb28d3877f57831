// Package nats runs flows as a hand-made chain on NATS JetStream, embedded in this process: a message per step, whose
// successor is published before it is acknowledged. Start with Open.
package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spritekit/lattice/scripts/bench/peers/peer"
)

type chain struct {
	ctx     context.Context // for steps: theirs is no request of anybody
	cancel  context.CancelFunc
	server  *server.Server
	conn    *client.Conn
	js      jetstream.JetStream
	workers sync.WaitGroup
	waiting peer.Waiting
}

// link is a message: the flow, and how many of its steps are done.
type link struct {
	peer.Flow
	Done int `json:"done"`
}

// Open starts the server, a stream on disk that is synced on every write, and a consumer of it.
func Open(ctx context.Context, dir string) (_ peer.Engine, err error) {
	c := &chain{}
	c.server, err = server.NewServer(&server.Options{ServerName: "bench", DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, SyncAlways: true})
	if err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.server.Start()
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *chain) connect(ctx context.Context) (err error) {
	if !c.server.ReadyForConnections(10 * time.Second) {
		return errors.New("the server is not ready after 10 seconds")
	}
	if c.conn, err = client.Connect("", client.InProcessServer(c.server)); err != nil {
		return err
	}
	if c.js, err = jetstream.New(c.conn); err != nil {
		return err
	}
	// Ends are kept in a stream of their own, as the steps' messages go when they are acknowledged.
	if _, err := c.js.CreateStream(ctx, jetstream.StreamConfig{Name: "ENDS", Subjects: []string{"end.>"}}); err != nil {
		return err
	}
	stream, err := c.js.CreateStream(ctx, jetstream.StreamConfig{Name: "STEPS", Subjects: []string{"step"}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return err
	}
	steps, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 256, AckWait: time.Minute})
	if err != nil {
		return err
	}
	_, err = steps.Consume(func(m jetstream.Msg) { c.workers.Go(func() { c.work(m) }) })
	return err
}

func (c *chain) work(m jetstream.Msg) {
	var l link
	err := json.Unmarshal(m.Data(), &l)
	if err == nil {
		err = l.Step(c.ctx)
	}
	l.Done++
	subject := "step"
	if l.Done >= l.Steps {
		subject = "end." + l.ID
	}
	if err == nil {
		err = c.publish(c.ctx, subject, l)
	}
	if err == nil {
		err = m.Ack()
	}
	if err != nil || l.Done >= l.Steps {
		c.waiting.End(l.Flow, err)
	}
}

// publish returns when the message is on disk.
func (c *chain) publish(ctx context.Context, subject string, l link) error {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = c.js.Publish(ctx, subject, data)
	}
	return err
}

func (c *chain) Run(ctx context.Context, f peer.Flow) error {
	return c.waiting.Run(ctx, f, func() error { return c.publish(ctx, "step", link{Flow: f}) })
}

func (c *chain) About() string {
	return fmt.Sprintf("NATS JetStream %s, in this process, SyncAlways: a chain made by hand, no retries, timers, history or queries; acknowledgements are not awaited", server.VERSION)
}

func (c *chain) Close() error {
	c.cancel()
	if c.conn != nil {
		c.conn.Close()
	}
	c.workers.Wait()
	c.server.Shutdown()
	c.server.WaitForShutdown()
	return nil
}
