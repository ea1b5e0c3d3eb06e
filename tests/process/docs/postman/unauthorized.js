pm.test('unauthorized', () => {
  pm.response.to.have.status(401)
  pm.expect(pm.response.headers.get('Content-Type')).to.eql('application/problem+json')
  pm.expect(pm.response.json().type).to.eql('urn:adapter-gateway:problem:token')
})
