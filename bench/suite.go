package main

// suite is what one run compares. It has results, a page and plots of its own.
type suite struct {
	title     string // of its section of the page
	target    string // of make
	stores    []string
	workloads func() []*workload
	subjects  func() []subject
	absent    map[string]string // what was to be measured and is not, and why
	page      page
	out       string
}

// peers compares locks and limits.
var peers = &suite{
	title: "Against other libraries", target: "bench-peers", stores: storeNames,
	workloads: workloads, subjects: subjects, absent: absent, page: peersPage, out: "results/peers.json",
}

// shared compares locks that several hold at once.
var shared = &suite{
	title: "Shared holds", target: "bench-shared", stores: sharedStores,
	workloads: sharedWorkloads, subjects: sharedSubjects, absent: absentShared, page: sharedPage, out: "results/shared.json",
}
