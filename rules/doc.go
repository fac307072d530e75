// Package rules says which limits a request counts against: an ordered chain of
// rules, each with a match, a subject and one or more limits. It knows neither HTTP nor
// gRPC; httpcoord and grpccoord put requests into its terms, and package
// config reads chains from a file.
//
//	chain, err := rules.New(
//		rules.Rule{Name: "health", Match: rules.Match{Path: "/healthz"}, Final: true},
//		rules.Rule{Name: "orders", Match: rules.Match{Methods: []string{"POST"}, Path: "/orders/"}, Subject: rules.User(),
//			Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Limit: coord.PerHour(1000)}}},
//		rules.Rule{Name: "everything", Limits: []rules.Limit{{Limit: coord.PerSecond(2000)}}},
//	)
//	decision, err := chain.Allow(ctx, client, &rules.Request{Method: "POST", Path: "/orders/7", User: "ann"})
//
// All limits of all rules that match are taken in one [coord.Client.AllowAll]: a request is
// admitted by every one of them, or costs none of them anything.
package rules
