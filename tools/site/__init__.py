"""The course as a static site: its notebooks with the outputs they hold, an index and a search, to read offline.

build       lay out the sources and have Sphinx make the pages
conf        Sphinx's own configuration
index.md    the first page, made of parts of the README
site.css    colours of the outputs, and wider columns
site.js     the keyboard scrolls what is too wide for the page
"""
