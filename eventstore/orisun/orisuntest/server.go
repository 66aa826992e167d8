package orisuntest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"path"
	"strings"
	"sync"

	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Version is which servers a Server behaves as.
type Version string

const (
	V010 Version = "0.10.0"
	V014 Version = "0.14.0"
)

// Config describes a Server. The zero value is a quiet 0.14 without boundaries
// and without users.
type Config struct {
	Version Version // zero: V014
	// Boundaries are there from the start; others are made by CreateBoundary.
	Boundaries []string
	// Faults happen in each boundary.
	Faults storefault.Config
	// User and Password are asked for, if set.
	User, Password string
}

// Server is a running server. All methods may be called at any time.
type Server struct {
	wire.UnimplementedEventStoreServer
	wire.UnimplementedAdminServer

	cfg      Config
	listener *listener
	grpc     *grpc.Server
	served   chan struct{}

	mu         sync.Mutex
	boundaries map[string]*boundary
	scripts    map[string][]answer
	calls      map[string]int
	tokens     int
	silent     bool
}

// Start starts a server on a free loopback port.
func Start(cfg Config) (*Server, error) {
	if cfg.Version == "" {
		cfg.Version = V014
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("orisuntest: %w", err)
	}
	s := &Server{cfg: cfg, listener: &listener{Listener: l, open: map[net.Conn]struct{}{}}, served: make(chan struct{}),
		boundaries: map[string]*boundary{}, scripts: map[string][]answer{}, calls: map[string]int{}}
	for _, name := range cfg.Boundaries {
		s.create(name)
	}
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	wire.RegisterEventStoreServer(s.grpc, s)
	wire.RegisterAdminServer(s.grpc, s)
	go func() {
		defer close(s.served)
		_ = s.grpc.Serve(s.listener)
	}()
	return s, nil
}

// Close stops the server; what it holds is gone.
func (s *Server) Close() {
	s.grpc.Stop()
	<-s.served
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boundaries {
		_ = b.store.Close()
	}
}

// Addr is HOST:PORT.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// DSN is where package orisun finds a boundary.
func (s *Server) DSN(boundary string) string {
	user := ""
	if s.cfg.User != "" {
		user = s.cfg.User + ":" + s.cfg.Password + "@"
	}
	return "orisun://" + user + s.Addr() + "/" + boundary
}

// Boundary is what lies under a boundary, for scripts of faults and for looking
// at what was stored, which has other event_ids there. Nil: there is none.
func (s *Server) Boundary(name string) *storefault.Store {
	if b := s.find(name); b != nil {
		return b.store
	}
	return nil
}

// Cut closes all connections. The server takes new ones.
func (s *Server) Cut() { s.listener.cut() }

// HoldAscending makes ascending reads of a boundary show no more than is there
// now, until the returned function is called.
func (s *Server) HoldAscending(name string) (release func()) {
	b := s.find(name)
	b.hold()
	return b.release
}

// Silence makes subscriptions drop all events, as a slow stream may.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

func (s *Server) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

type answer struct {
	err   error
	after bool
}

// Refuse answers the next calls of a method, such as "GetEvents", with a code
// instead of doing them, one each.
func (s *Server) Refuse(method string, errs ...error) { s.script(method, false, errs) }

// Lose does the next calls of a method and answers with an error nevertheless.
func (s *Server) Lose(method string, errs ...error) { s.script(method, true, errs) }

func (s *Server) script(method string, after bool, errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range errs {
		s.scripts[method] = append(s.scripts[method], answer{err, after})
	}
}

// Calls is how often a method was called.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Logins is how often the password was checked.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// Forget makes all tokens stale, as a restart does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
}

func (s *Server) next(method string) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	script := s.scripts[method]
	if len(script) == 0 {
		return answer{}, false
	}
	s.scripts[method] = script[1:]
	return script[0], true
}

func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	a, scripted := s.next(path.Base(info.FullMethod))
	token, err := s.login(ctx)
	if err != nil {
		return nil, err
	}
	if token != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-auth-token", token))
	}
	if scripted && !a.after {
		return nil, a.err
	}
	response, err := handle(ctx, request)
	if scripted {
		return nil, a.err
	}
	return response, err
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if a, scripted := s.next(path.Base(info.FullMethod)); scripted {
		return a.err
	}
	if _, err := s.login(stream.Context()); err != nil {
		return err
	}
	return handle(srv, stream)
}

// login takes a live token first, and the password as a fallback.
func (s *Server) login(ctx context.Context) (token string, err error) {
	if s.cfg.User == "" {
		return "", nil
	}
	in, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	live := fmt.Sprintf("token-%d", s.tokens)
	if sent := in.Get("x-auth-token"); len(sent) > 0 && sent[0] == live {
		return live, nil
	}
	text := strings.Join(in.Get("authorization"), "")
	if text != "Basic "+base64.StdEncoding.EncodeToString([]byte(s.cfg.User+":"+s.cfg.Password)) {
		return "", status.Error(codes.Unauthenticated, "invalid credentials")
	}
	s.tokens++
	return fmt.Sprintf("token-%d", s.tokens), nil
}

func (s *Server) find(name string) *boundary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boundaries[name]
}

func (s *Server) create(name string) (isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boundaries[name] != nil {
		return false
	}
	log := memstore.New()
	s.boundaries[name] = &boundary{version: s.cfg.Version, log: log, store: storefault.New(log, s.cfg.Faults), indexes: map[string]*wire.IndexDefinition{}, sent: map[uuid.UUID]sent{}}
	return true
}

// listener knows its connections.
type listener struct {
	net.Listener
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tracked := &conn{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[tracked] = struct{}{}
	return tracked, nil
}

func (l *listener) cut() {
	l.mu.Lock()
	all := l.open
	l.open = map[net.Conn]struct{}{}
	l.mu.Unlock()
	for c := range all {
		_ = c.Close()
	}
}

type conn struct {
	net.Conn
	l *listener
}

func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.open, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
