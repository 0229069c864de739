// Package scrape gives a web page as Markdown. A [Scraper] behaves as an honest reader: it
// fetches only addresses of the public internet (providers/fetch), no blocked sites, and
// only pages that robots.txt allows. It asks for Markdown first, and bounds time, size,
// redirects and concurrency. HTML is read in the jail ([Jobs]); documents go to their
// reader ([Options.Document]); pages that are made by scripts go through a [Renderer] where
// there is one.
//
// A failed page is an [*Error] with its reason, in words for a client, and with the party
// at fault. Pages are cached for a while, by their final address.
//
// Out of scope: accounts and money, HTTP of our own API, and any way out
// other than providers/fetch.
package scrape
