package certmagiccoord

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority issues certificates, and counts them.
type authority struct {
	key    *ecdsa.PrivateKey
	mu     sync.Mutex
	issued int
}

func (a *authority) IssuerKey() string { return "test" }

func (a *authority) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.issued++
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(a.issued)), DNSNames: request.DNSNames, NotBefore: now, NotAfter: now.Add(24 * time.Hour),
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(100), Subject: pkix.Name{CommonName: "root"}}
	der, err := x509.CreateCertificate(rand.Reader, template, root, request.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// Eight processes want the certificate of one name at once. It is issued once.
func TestOneCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	store, dir := memory.NewStore(), t.TempDir()
	var processes sync.WaitGroup
	for range 8 {
		storage := NewStorage(&certmagic.FileStorage{Path: dir}, coordtest.NewOn(t, store).Client)
		var config *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil }, Logger: zap.NewNop(),
		})
		defer cache.Stop()
		config = certmagic.New(cache, certmagic.Config{
			Storage: storage, Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop(), OCSP: certmagic.OCSPConfig{DisableStapling: true},
		})
		processes.Go(func() {
			if err := config.ObtainCertSync(t.Context(), "shop.example"); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	if a.issued != 1 {
		t.Errorf("%d certificates were issued, want 1", a.issued)
	}
}

// One storage has the lock. The other is refused until it is given back.
func TestLocks(t *testing.T) {
	ctx, store := t.Context(), memory.NewStore()
	client := coordtest.NewOn(t, store)
	a, b := NewStorage(nil, client.Client), NewStorage(nil, coordtest.NewOn(t, store).Client)
	if err := a.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if ok, err := b.TryLock(ctx, "x"); ok || err != nil {
		t.Errorf("a lock that is taken: %v, %v", ok, err)
	}
	if err := a.RenewLockLease(ctx, "x", time.Minute); err != nil {
		t.Error(err)
	}
	if err := a.Unlock(ctx, "x"); err != nil {
		t.Error(err)
	}
	if ok, err := b.TryLock(ctx, "x"); !ok || err != nil {
		t.Errorf("a free lock: %v, %v", ok, err)
	}
	client.Lose(coord.Key("certmagic", "x"))
	if err := b.RenewLockLease(ctx, "x", time.Minute); err != nil {
		t.Errorf("a lost lock is taken again: %v", err)
	}
	if ok, err := a.TryLock(ctx, "x"); ok || err != nil {
		t.Errorf("a lock that was taken again: %v, %v", ok, err)
	}
	client.Lose(coord.Key("certmagic", "x"))
	if err := b.Unlock(ctx, "x"); !errors.Is(err, coord.ErrLost) {
		t.Errorf("a lost lock is unlocked: %v", err)
	}
	for _, err := range []error{b.Unlock(ctx, "x"), b.RenewLockLease(ctx, "x", time.Minute)} {
		if !errors.Is(err, coord.ErrNotHeld) {
			t.Errorf("without a lock: %v", err)
		}
	}
}
