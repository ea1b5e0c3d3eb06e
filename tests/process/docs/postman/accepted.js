pm.test('accepted', () => {
  pm.response.to.have.status(200)
  pm.expect(pm.response.json()).to.eql({ status: 'accepted' })
})
