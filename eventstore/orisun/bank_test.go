package orisun_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"context"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// A small bank for the tests of this package.

type posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"`
}

// moved carries the balance that it leads to.
type moved struct {
	Till    string `json:"till"`
	Balance int64  `json:"balance,string"`
}

func (posted) EventType() string { return "MoneyPosted" }
func (moved) EventType() string  { return "TillMoved" }

var (
	events   = event.NewCodec(event.Of[posted](), event.Of[moved]())
	accounts = command.NewModel(events, func(cents int64, e event.Event) int64 { return cents + e.(posted).Cents })
	tills    = command.NewModel(events, func(_ int64, e event.Event) int64 { return e.(moved).Balance })
	errShort = errors.New("not that much money")
)

func account(id string) command.View[int64] {
	return accounts.History(consistency.Where("accountId", id).Type("MoneyPosted"))
}

func till(id string) command.View[int64] {
	return tills.Latest(consistency.Where("till", id).Type("TillMoved"))
}

type deposit struct {
	Account string
	Cents   int64
}

func (deposit) CommandName() string            { return "deposit" }
func (c deposit) Context() command.View[int64] { return account(c.Account) }
func (c deposit) Decide(int64) ([]event.Event, error) {
	return []event.Event{posted{c.Account, c.Cents}}, nil
}

// transfer depends on two accounts.
type transfer struct {
	From, To string
	Cents    int64
}

func (transfer) CommandName() string { return "transfer" }
func (c transfer) Context() command.View[[2]int64] {
	return command.Join(account(c.From), account(c.To), func(a, b int64) [2]int64 { return [2]int64{a, b} })
}
func (c transfer) Decide(has [2]int64) ([]event.Event, error) {
	if has[0] < c.Cents {
		return nil, errShort
	}
	return []event.Event{posted{c.From, -c.Cents}, posted{c.To, c.Cents}}, nil
}

// payIn depends on an account's history and a till's latest event.
type payIn struct {
	Account, Till string
	Cents         int64
}

func (payIn) CommandName() string { return "pay in" }
func (c payIn) Context() command.View[[2]int64] {
	return command.Join(account(c.Account), till(c.Till), func(a, b int64) [2]int64 { return [2]int64{a, b} })
}
func (c payIn) Decide(has [2]int64) ([]event.Event, error) {
	return []event.Event{posted{c.Account, c.Cents}, moved{c.Till, has[1] + c.Cents}}, nil
}

// trips is an interceptor that counts calls.
type trips struct {
	mu    sync.Mutex
	calls []string
}

func (c *trips) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		c.mu.Lock()
		c.calls = append(c.calls, path.Base(method))
		c.mu.Unlock()
		return invoke(ctx, method, in, out, cc, opts...)
	})
}

// since returns what was called since the last call of since.
func (c *trips) since() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := slices.Clone(c.calls)
	c.calls = nil
	return strings.Join(calls, " ")
}

// openWith opens a boundary, which Setup made, with options of the connection.
func openWith(t testing.TB, dsn string, options ...grpc.DialOption) *orisun.Store {
	t.Helper()
	config, err := orisun.ParseDSN(dsn)
	require.NoError(t, err)
	require.NoError(t, config.Setup(t.Context()))
	config.Dial = options
	store, err := config.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// changed is an interceptor that changes answers.
func changed(f func(method string, out any)) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, in, out, cc, opts...)
		f(path.Base(method), out)
		return err
	})
}

// asked is an interceptor that sees requests.
func asked(f func(in any)) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		f(in)
		return invoke(ctx, method, in, out, cc, opts...)
	})
}
