// Package servers runs the real servers that farebox works with, for tests:
// [StartPostgres], [StartRedis] and the like, each on a free port of the
// loopback address and gone with its test, and [StartCut], a proxy before them
// that fails as networks do.
//
// A test that needs a server or a program ([Tool]) which is not installed fails: a check
// must not be skipped unnoticed. .ci/setup installs them; FAREBOX_TEST_POSTGRES=off leaves
// the tests on PostgreSQL out, and FAREBOX_TEST_TOOLS=off those that need anything else.
package servers
