package main

import (
	"bytes"
	"fmt"
	"math"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/bench"
)

// oneCore are stores whose server computes on one core, whatever the machine has.
var oneCore = map[string]bool{"redis": true}

// busiest is the step at which most was done.
func (s *Series) busiest(rate string) Point {
	best := s.Points[0]
	for _, p := range s.Points {
		if p.Figures[rate] > best.Figures[rate] {
			best = p
		}
	}
	return best
}

// writeSaturation tells what is used up where most is done.
func writeSaturation(b *bytes.Buffer, r *Scale) {
	b.WriteString("## What is used up first\n\nAt the number of processes that did most. *Server* and *clients* are the cores that they used. *A core of the server alone* is what it would carry by its " +
		"processor time for each operation, with clients elsewhere: Redis works on one core, the others on more.\n\n" +
		"| store | | processes | a second | server, cores | clients, cores | used up | a core of the server alone |\n| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |\n")
	for _, store := range scaleStores {
		s := r.of("clients", store, "coord")
		if s == nil {
			continue
		}
		for _, use := range []struct{ name, title string }{{"locks", "keys of one's own"}, {"hot", "one key"}, {"limits", "1,000 limits"}, {"hotlimit", "one limit"}, {"leased", "one limit, leased"}} {
			p := s.busiest(use.name + "_s")
			rate, ok := p.Figures[use.name+"_s"]
			if !ok {
				continue
			}
			alone := "–"
			if us := p.Figures[use.name+"_server_us"]; us > 0 {
				alone = bench.Figure(1e6/us) + "/s"
			}
			server, clients := p.Figures[use.name+"_server_cpu"], p.Figures[use.name+"_client_cpu"]
			fmt.Fprintf(b, "| %s | %s | %d | %s | %s | %s | %s | %s |\n", store, use.title, p.N, bench.Figure(rate), tellServer(store, server), bench.Figure(clients),
				usedUp(store, use.name, p.Figures, float64(r.Machine.Cores)), alone)
		}
	}
	b.WriteString("\n")
}

// tellServer is the cores of a server; files have none.
func tellServer(store string, cores float64) string {
	if store == "file" {
		return "–"
	}
	return bench.Figure(cores)
}

// usedUp says what has no more to give in a use of a store.
func usedUp(store, use string, f figures, cores float64) string {
	server, clients := f[use+"_server_cpu"], f[use+"_client_cpu"]
	idle, known := f[use+"_idle"]
	if !known {
		idle = cores - server - clients
	}
	switch {
	case oneCore[store] && server > 0.9:
		return "the server's core"
	case idle > 0.2*cores:
		return "nothing: turns and round trips are waited for"
	case server+clients < 0.6*cores:
		return "the cores, by other programs"
	case clients > 2*server:
		return "the cores, by the clients"
	case server > 2*clients:
		return "the cores, by the server"
	}
	return "the cores, by both"
}

const (
	planLocks     = 1e6
	planDecisions = 1e7
	planLoad      = 0.5 // of a server's core, so that there is room
)

// writePlan works out what a million locks and ten million decisions a second would take.
func writePlan(b *bytes.Buffer, r *Scale) {
	b.WriteString("## A million locks, by these figures\n\n")
	period := coord.DefaultTTL / 3
	renewals := planLocks / period.Seconds()
	fmt.Fprintf(b, "A million locks with the default lease of %v are renewed every %v: %s renewals a second. What that takes is what was measured at the last step of *locks held*, in proportion: "+
		"**extrapolated**, not measured. *Cores* is the server's time to renew a lock, times the renewals; *servers* keeps the renewals under half of a core of each, and is the number of "+
		"masters of a Redis Cluster, of memcached servers, or of separate etcd and ZooKeeper clusters; *memory* is of all servers together, before replicas.\n\n", coord.DefaultTTL, period, bench.Figure(renewals))
	b.WriteString("| store | measured at | requests a second | server, cores | servers | store, memory | clients, memory | clients, cores | to take them all, one client |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, store := range scaleStores {
		s := r.of("held", store, "coord")
		if s == nil || store == "memory" || store == "file" {
			continue
		}
		p := s.last()
		n := float64(p.N)
		f := p.Figures
		cores := renewals * f["renew_server_us"] / 1e6
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s s |\n", store, bench.Figure(n), bench.Figure(renewals*f["renew_commands"]/n), bench.Figure(cores),
			bench.Figure(max(1, math.Ceil(cores/planLoad))), gigabytes(planLocks*f["store_B"]), gigabytes(planLocks*f["client_B"]),
			bench.Figure(f["watch_client_cpu"]*planLocks/n), bench.Figure(planLocks/f["take_s"]))
	}
	b.WriteString("\n")
	writeDecisions(b, r)
}

func gigabytes(v float64) string { return bench.Figure(v/1e9) + " GB" }

func writeDecisions(b *bytes.Buffer, r *Scale) {
	b.WriteString("## Ten million decisions a second, by these figures\n\nThe same arithmetic for limits. *Each asked* is a request for every decision on keys that differ; *leased* is hot keys with `WithPermitLease`, " +
		"at the rate of one process that has the machine to itself. Servers are kept under half of a core.\n\n" +
		"| store | each asked: server, cores | servers | clients, cores | leased: one process does | requests for each | server, cores | servers | clients, cores |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, store := range scaleStores {
		s := r.of("clients", store, "coord")
		if s == nil || store == "file" {
			continue
		}
		asked, leased := s.busiest("limits_s").Figures, s.Points[0].Figures
		askedCores, leasedCores := planDecisions*asked["limits_server_us"]/1e6, planDecisions*leased["leased_server_us"]/1e6
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s/s | %s | %s | %s | %s |\n", store, bench.Figure(askedCores), bench.Figure(max(1, math.Ceil(askedCores/planLoad))), bench.Figure(planDecisions*asked["limits_client_us"]/1e6),
			bench.Figure(leased["leased_s"]), bench.Figure(leased["leased_commands"]), bench.Figure(leasedCores), bench.Figure(max(1, math.Ceil(leasedCores/planLoad))),
			bench.Figure(planDecisions*leased["leased_client_us"]/1e6))
	}
	b.WriteString("\n")
}
