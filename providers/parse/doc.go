// Package parse makes text of documents that clients send: PDF, DOCX, PPTX, XLSX, XLS,
// EPUB, and everything that is text already. A [Parser] tells formats by their content,
// never by a name, and has [Jobs] done in the jail, or runs an operator's pdftotext or
// tesseract; an [Error] tells the client the document's fault.
//
// The text is the visible text: with form fields and lists' numbers, without hidden or
// deleted parts; tables are Markdown.
//
// Readers bound the sizes of archives, parts, nesting and text, and stop with a sentence;
// all else ends at the jail's limits. Text leaves the child in pieces while it is read, so
// that a limit does not lose the text before it.
//
// Out of scope: knowledge of requests, models and prices.
package parse
