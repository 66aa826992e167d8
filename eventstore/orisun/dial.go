package orisun

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

const (
	maxMessage   = 64 << 20 // the servers' own limit
	maxReceive   = maxMessage + 1<<20
	tokenHeader  = "x-auth-token"
	keepaliveGap = 30 * time.Second // servers allow 5 s
)

// dial makes the connection; nothing is sent yet.
func (c *Config) dial() (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if !c.plain() {
		config := c.TLS
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		transport = credentials.NewTLS(config)
	}
	nodes := manual.NewBuilderWithScheme("orisun")
	var state resolver.State
	for _, a := range c.Addresses {
		host, _, _ := net.SplitHostPort(a)
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a, ServerName: host}}})
	}
	nodes.InitialState(state)
	login := &login{}
	if c.User != "" {
		login.basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.User+":"+c.Password))
	}
	options := append([]grpc.DialOption{
		grpc.WithResolvers(nodes),
		grpc.WithTransportCredentials(transport),
		// A second copy of a save is never sent behind our back.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveGap, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive)),
		grpc.WithStatsHandler(sentHandler{}),
		grpc.WithChainUnaryInterceptor(login.unary),
		grpc.WithChainStreamInterceptor(login.stream),
	}, c.Dial...)
	return grpc.NewClient("orisun:///"+c.Boundary, options...)
}

// login sends the password together with the token that an answer carried: a
// live token is checked in no time, the password is the fallback.
type login struct {
	basic string
	token atomic.Pointer[string]
}

func (l *login) outgoing(ctx context.Context) (context.Context, *string) {
	token := l.token.Load()
	if l.basic != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", l.basic)
	}
	if token != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, tokenHeader, *token)
	}
	return ctx, token
}

func (l *login) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	for again := false; ; again = true {
		out, used := l.outgoing(ctx)
		var header metadata.MD
		err := invoke(out, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Header(&header))...)
		if new := header.Get(tokenHeader); len(new) > 0 && (used == nil || *used != new[0]) {
			l.token.Store(&new[0])
		}
		if status.Code(err) != codes.Unauthenticated || used == nil || again {
			return err
		}
		// Refused before anything was done: once more, without the token.
		l.token.CompareAndSwap(used, nil)
	}
}

func (l *login) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, _ = l.outgoing(ctx)
	return open(ctx, desc, cc, method, opts...)
}

// sent tells whether a call's request may have left: gRPC reports its headers
// when they are handed to a connection that stands, and not before.
type sent struct{ atomic.Bool }

type sentKey struct{}

func watchSent(ctx context.Context) (context.Context, *sent) {
	s := &sent{}
	return context.WithValue(ctx, sentKey{}, s), s
}

type sentHandler struct{}

func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); !ok {
		return
	}
	if s, ok := ctx.Value(sentKey{}).(*sent); ok {
		s.Store(true)
	}
}

func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (sentHandler) HandleConn(context.Context, stats.ConnStats) {}
