// Package examples holds programs that use coord. Each runs on any store:
//
//	go run ./ticketing --url redis://localhost:6379
//
// ticketing, supplier, httpapi, longjob, cron, leaderish and fencedwrites each show one promise, exit with 1
// if it was not kept, and have a flag with which it is not. docs/integrations.md#examples tells of them.
//
// quickstart and chiservice are services under the router chi, for docs/quick-start.md and docs/http.md.
//
// python and shell are clients of coord serve, for programs in other languages, and serve runs it beside them; see
// docs/serve.md.
//
// goose, kubernetes and slogobserver join coord to other libraries and tools, for docs/integrations.md. What
// the module integrations has is shown by its Examples.
//
// They are a module of their own, which is never tagged, so that what they need beyond
// coord is nobody else's business.
package examples
